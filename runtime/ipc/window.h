/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection's staging window. Messages in ordinary memory pass through the
 * window in parts. The window is divided into two runs. Each run is a FIFO of
 * parts, so while a send waits for its receive, the send's parts block all
 * later parts of the same run. This is why the window has two runs, just as
 * feed.h has two kinds of places:
 *
 * - The big run accepts parts of all sends.
 * - The small run is reserved for sends whose receive the shard knows. The
 *   shard knows the receive if it has published the send's tag as wanted, or
 *   has sent an earlier part of the send. These sends use the small run only if
 *   the big run is full.
 *
 * The shard posts each part in the small run at once, so no part blocks this
 * run. Thus sends that wait for later receives never block a send that the
 * oldest unanswered receive needs. A receiver needs no small run, because its
 * parts leave the window in the order of the receives.
 *
 * The runs are used only on the connection's thread, inside mpib_isend(),
 * mpib_irecv() and mpib_test().
 *
 * A connection begins with a small window, because most connections carry
 * little data and the kernel takes time to allocate pages. After several posts
 * have found no room, the connection gets a window of full size (stage.c). The
 * parts that are in the small window stay there until they are complete.
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
#define MPIB_PARTS 256 /* maximum number of parts in one run */
/* Maximum number of a connection's parts that wait for receives. The shard can
 * store 64 descriptors of a connection. They must suffice for all waiting parts
 * (one descriptor each), for all places without a waiting part (one each), and
 * for the parts of a send whose receive is known. */
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

/* One part of a request in the window. */
struct mpib_staging_chunk {
	uint16_t req; /* number of the request */
	uint8_t idx; /* index of the buffer in a grouped receive */
	/* true: when the part was added, the shard did not know the receive of
	 * this part's send */
	bool waits;
	/* true: the send of this part has completed, but an earlier part is
	 * still in the run */
	bool gone;
	uint32_t pos, len; /* offset in the buffer, and size, in bytes */
	uint32_t at; /* offset in the window, in bytes */
	/* value of run->head after this part was added; 0: the part is in the
	 * previous window */
	uint64_t end;
};

struct mpib_run {
	uint32_t off, size; /* the run's range in the window, in bytes */
	/* `head`: number of bytes added so far. `tail`: number of bytes removed
	 * so far. Both are 0 if the run is empty. */
	uint64_t head, tail;
	/* number of parts added so far, and removed so far */
	uint32_t part_head, part_tail;
	struct mpib_staging_chunk part[MPIB_PARTS];
};

enum mpib_window_state {
	MPIB_WINDOW_NONE, /* not needed yet, or released */
	/* The window is empty. To use or release the window, a thread first
	 * changes this state by an atomic operation. */
	MPIB_WINDOW_RESTS,
	MPIB_WINDOW_USED, /* the connection's thread uses the window */
};

struct mpib_window {
	/* enum mpib_window_state; the state protects the fields below */
	_Atomic unsigned state;
	/* value of client->sweeps when the state became MPIB_WINDOW_RESTS */
	_Atomic uint32_t sweep;
	char *base;
	uint32_t mr; /* id of the window's MR, which contains nothing else */
	uint32_t size; /* in bytes */
	/* size of the largest window that the connection has had, in bytes */
	uint32_t had;
	/* earliest time, in ms, of the next request for another window */
	uint64_t again_ms;
	/* number of posts that found no room in the window (stage.c) */
	uint32_t no_room;
	uint32_t waiting; /* number of parts with `waits` set */
	/* True: a part failed together with the connection. Until the
	 * connection is closed, the peer may write to that part, or a QP may
	 * read that part. So no further part is added. */
	bool lost;
	_Atomic uint32_t before; /* number of parts in the previous window */
	char *base_before; /* address of the previous window */
	struct mpib_run big, small;
};

/* Divide a new window of w->size bytes into runs. Existing parts stay in the
 * previous window. `keep` is the maximum size of the small run. */
void mpib_window_cut(struct mpib_window *w, uint32_t keep);

/* Return whether the window holds no part, and no proxy can still access the
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

/* Mark the window as used. False: the connection has no window. The caller must
 * get one under the client's lock. */
static inline bool mpib_window_use(struct mpib_window *w)
{
	unsigned rests = MPIB_WINDOW_RESTS;

	/* Relaxed: only this thread sets USED. Acquire pairs with the release
	 * in mpib_window_rest(). */
	return atomic_load_explicit(&w->state, memory_order_relaxed) ==
		       MPIB_WINDOW_USED ||
	       atomic_compare_exchange_strong_explicit(
		       &w->state, &rests, MPIB_WINDOW_USED,
		       memory_order_acquire, memory_order_relaxed);
}

/* Mark the window as resting. Call this if the window is empty and no request
 * waits for room in it. */
void mpib_window_rest(struct mpib_conn *conn);

/* Reserve room for the next part of buffer i of r, at most `len` bytes. NULL:
 * the window has no room yet. */
struct mpib_staging_chunk *mpib_window_take(struct mpib_conn *conn,
					    struct mpib_request *r, unsigned i,
					    uint32_t len);

/* Undo mpib_window_take() for the newest n parts of the big run. These parts
 * belong to r, and are not pushed yet. */
void mpib_window_untake(struct mpib_conn *conn, struct mpib_request *r,
			unsigned n);

/* Sender: copy the part into the window. False: not copied, because the
 * buffer's region is deregistered. */
bool mpib_window_copy_in(struct mpib_conn *conn, const struct mpib_request *r,
			 const struct mpib_staging_chunk *p);

/* Sender: detach r from its parts, so that r can be reused while the parts are
 * still in the window. A part stays there until all earlier parts have left.
 * Call this after r has completed, if the connection has not failed. */
void mpib_window_forget(struct mpib_conn *conn, struct mpib_request *r);

/* Discard the window's contents, and detach the window from the connection. */
void mpib_window_drop(struct mpib_conn *conn);

/* Remove complete parts from the window. A receiver first copies their bytes to
 * the buffers of the requests. */
void mpib_window_drain(struct mpib_conn *conn);

/* pool.c, any thread. Return the size of a connection's first window. */
uint32_t mpib_window_first(const struct mpib_attached *at);
/* Under the client's lock. Get a window of at least `size` bytes for the index.
 * If the index already has a smaller window: keep it as x->before if it holds
 * parts (`busy`), release it otherwise. */
int mpib_window_get(struct mpib_client *c, struct mpib_index *x, uint32_t size,
		    bool busy);
/* Under the client's lock. Release the index's windows. Never waits. */
void mpib_window_put(struct mpib_client *c, struct mpib_index *x);

/* Any thread, under the client's lock. If the last sweep was at least 30 s ago,
 * release the windows that have been empty since that sweep. Never waits. */
void mpib_windows_sweep(struct mpib_client *c, uint64_t now_ms);

#endif
