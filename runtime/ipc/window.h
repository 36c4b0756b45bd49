/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection's staging window: shared memory through which the library copies
 * messages from and to ordinary memory.
 *
 * A message passes through the window in parts. The window is divided into two
 * FIFOs of parts (struct mpib_run), because a send that waits for its receive
 * blocks all later parts of the same FIFO. For the same reason, feed.h has two
 * kinds of completion entries.
 *
 * The FIFO `big` accepts parts of all sends. The FIFO `small` is reserved for
 * sends whose receive the shard knows. The shard knows the receive if it has
 * published the tag of the send as wanted, or has sent an earlier part of the
 * send. These sends use `small` only if `big` is full.
 *
 * The shard posts each part in `small` at once, so no part blocks this FIFO.
 * Thus sends that wait for later receives never block a send that the oldest
 * unanswered receive needs. A receiver does not need the FIFO `small`, because
 * its parts leave the window in the order of the receives.
 *
 * Only the connection's thread uses the FIFOs, in mpib_isend(), mpib_irecv()
 * and mpib_test().
 *
 * A connection begins with a small window, because most connections carry
 * little data and the kernel takes time to allocate pages. After several posts
 * have found no room, the connection gets a window of full size (stage.c). The
 * parts that are in the first window stay there until they are complete.
 *
 * Any thread that holds the client's lock may release a window that has been
 * empty for a long time (mpib_windows_sweep()). So the connection's thread
 * marks the window as used before it adds a part, and as resting after the
 * window has become empty.
 */
#ifndef MPIB_IPC_WINDOW_H
#define MPIB_IPC_WINDOW_H

#include <mpib/abi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define MPIB_WINDOW_MAX (1u << 30)
#define MPIB_PARTS 256 /* maximum number of parts in one FIFO */
/* Maximum number of parts of a connection that wait for receives. The shard can
 * store 64 descriptors of a connection. It needs one for each waiting part, one
 * for each completion entry (feed.h) whose request has no waiting part, and the
 * rest for the parts of a send whose receive is known. */
#define MPIB_PARTS_WAITING 32

/* Return how many bytes of the window a part of `len` bytes uses. */
static inline uint32_t mpib_window_padded(uint32_t len)
{
	return (len + MPIB_ALIGN - 1) & ~(MPIB_ALIGN - 1);
}

struct mpib_attached;
struct mpib_client;
struct mpib_conn;
struct mpib_index;
struct mpib_request;

/* One part of a request's message in the staging window. */
struct mpib_staging_chunk {
	uint16_t req; /* number of the request to which the part belongs */
	/* index of the buffer in a grouped receive; 0 otherwise */
	uint8_t idx;
	/* true: when the part was added, the shard did not know the receive
	 * that this send answers */
	bool waits;
	/* true: the send has completed, but an earlier part is still in the
	 * FIFO */
	bool gone;
	/* offset in the buffer and size of the part, in bytes */
	uint32_t pos, len;
	uint32_t at; /* offset of the part in the window, in bytes */
	/* value of the FIFO's `head` after this part was added; 0: the part is
	 * in the previous window */
	uint64_t end;
};

struct mpib_run {
	/* The FIFO uses `size` bytes of the window, from offset `off` on. */
	uint32_t off, size;
	/* Number of bytes that were added (`head`) and removed (`tail`) so far.
	 * Both are 0 if the FIFO is empty. */
	uint64_t head, tail;
	/* number of parts that were added (`part_head`) and removed
	 * (`part_tail`) so far */
	uint32_t part_head, part_tail;
	struct mpib_staging_chunk part[MPIB_PARTS];
};

enum mpib_window_state {
	MPIB_WINDOW_NONE, /* not needed yet, or released */
	/* The window is empty. A thread that wants to use or release the window
	 * must first change this state by an atomic operation. */
	MPIB_WINDOW_RESTS,
	MPIB_WINDOW_USED, /* the connection's thread uses the window */
};

struct mpib_window {
	/* enum mpib_window_state; it says which thread may use the fields
	 * below */
	_Atomic unsigned state;
	/* value of client->sweeps when the state became MPIB_WINDOW_RESTS */
	_Atomic uint32_t sweep;
	char *base;
	/* id of the window's MR, which contains only this window */
	uint32_t mr;
	uint32_t size; /* in bytes */
	/* size, in bytes, of the largest window that the connection has had */
	uint32_t had;
	/* time, in ms, before which the client requests no other window */
	uint64_t again_ms;
	/* number of posts that found no room in this window (stage.c) */
	uint32_t no_room;
	uint32_t waiting; /* number of parts whose `waits` is true */
	/* True: a part failed together with the connection. Until the
	 * connection is closed, the peer may write to that part, or a QP may
	 * read that part. So the library adds no further part to the window. */
	bool lost;
	/* number of parts that are still in the previous window */
	_Atomic uint32_t before;
	char *base_before; /* address of the previous window */
	struct mpib_run big, small;
};

/* Divide a new window of w->size bytes into the two FIFOs. The FIFO `small`
 * gets at most `keep` bytes. Existing parts stay in the previous window. */
void mpib_window_cut(struct mpib_window *w, uint32_t keep);

/* Return whether the window contains no part, and no proxy can still access the
 * bytes of a removed part. */
static inline bool mpib_window_empty(const struct mpib_window *w)
{
	return !w->lost && w->big.part_head == w->big.part_tail &&
	       w->small.part_head == w->small.part_tail;
}

static inline char *mpib_window_addr(const struct mpib_window *w,
				     const struct mpib_staging_chunk *p)
{
	return (p->end ? w->base : w->base_before) + p->at;
}

/* Mark the window as used. Returns false if the connection has no window. Then
 * the caller must get a window under the client's lock. */
static inline bool mpib_window_use(struct mpib_window *w)
{
	unsigned rests = MPIB_WINDOW_RESTS;

	/* The load is relaxed, because only this thread sets USED. Acquire
	 * pairs with the release in mpib_window_rest(). */
	return atomic_load_explicit(&w->state, memory_order_relaxed) ==
		       MPIB_WINDOW_USED ||
	       atomic_compare_exchange_strong_explicit(
		       &w->state, &rests, MPIB_WINDOW_USED,
		       memory_order_acquire, memory_order_relaxed);
}

/* Mark the window as resting, so that it may be released. Call this if the
 * window is empty and no request waits for room in it. */
void mpib_window_rest(struct mpib_conn *conn);

/* Reserve at most `len` bytes of the window for the next part of buffer `i` of
 * the request `r`. Returns NULL if the window has no room at the moment. */
struct mpib_staging_chunk *mpib_window_take(struct mpib_conn *conn,
					    struct mpib_request *r, unsigned i,
					    uint32_t len);

/* Undo mpib_window_take() for the newest `n` parts of the FIFO `big`. These
 * parts must belong to the request `r`, and must not be pushed yet. */
void mpib_window_untake(struct mpib_conn *conn, struct mpib_request *r,
			unsigned n);

/* Sender: copy the bytes of the part from the buffer into the window. Returns
 * false, without a copy, if the buffer's region is deregistered. */
bool mpib_window_copy_in(struct mpib_conn *conn, const struct mpib_request *r,
			 const struct mpib_staging_chunk *p);

/* Sender: detach the completed request `r` from its parts, so that `r` can be
 * reused while the parts are still in the window. A part stays in the window
 * until all earlier parts of the FIFO have left. Do not call this after the
 * connection has failed. */
void mpib_window_forget(struct mpib_conn *conn, struct mpib_request *r);

/* Remove all parts from the window, and detach the window from the
 * connection. */
void mpib_window_drop(struct mpib_conn *conn);

/* Remove the complete parts from the window. A receiver first copies the bytes
 * of each part to the buffer of the request. */
void mpib_window_drain(struct mpib_conn *conn);

/* pool.c, any thread. Return the size, in bytes, of the first window of a
 * connection. */
uint32_t mpib_window_first(const struct mpib_attached *at);
/* Under the client's lock. Get a window of at least `size` bytes for the
 * connection index `x`. If the index already has a smaller window, that window
 * is kept as x->before if it contains parts (`busy`), and released
 * otherwise. */
int mpib_window_get(struct mpib_client *c, struct mpib_index *x, uint32_t size,
		    bool busy);
/* Under the client's lock. Release the windows of the connection index `x`.
 * Never waits. */
void mpib_window_put(struct mpib_client *c, struct mpib_index *x);

/* Any thread, under the client's lock. If this function last released windows
 * less than 30 s ago, do nothing. Otherwise release all windows that have been
 * empty since then. Never waits. */
void mpib_windows_sweep(struct mpib_client *c, uint64_t now_ms);

#endif
