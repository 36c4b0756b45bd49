/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection's staging window. Messages pass through it in parts. The window
 * is divided into two runs, and each run is a FIFO of parts. While a send waits
 * for its receive, its parts block all later parts of the same run. Therefore
 * the window has two runs, just as feed.h has two kinds of places:
 *
 * - The big run accepts parts of all sends.
 * - The small run is reserved for sends whose receive the shard knows: the
 *   shard has published the send as wanted, or has sent an earlier part of the
 *   send. These sends use the small run only if the big run is full.
 *
 * The shard posts each part in the small run at once, so no part blocks this
 * run. Thus sends that wait for later receives never block a send that the
 * oldest unanswered receive needs. A receiver's parts leave in the order of the
 * receives, so a receiver has no small run.
 *
 * The runs are used only on the connection's thread, inside mpib_isend(),
 * mpib_irecv() and mpib_test().
 *
 * A connection begins with a small window, because most connections carry
 * little data and the kernel takes time to allocate pages. After several posts
 * have found no room, the connection gets a window of full size (stage.c).
 * Existing parts stay in the small window until they leave it.
 *
 * Any thread that holds the client's lock may release a window that was idle
 * for a long time (mpib_windows_sweep()). So the connection's thread marks the
 * window as used before it adds a part, and as resting after the window has
 * become empty.
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
 * store 64 descriptors of a connection: one for each waiting part, one for each
 * place without a waiting part, and those of a send whose receive is known. */
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
	/* when the part was added, the shard did not know the send's receive */
	bool waits;
	/* the send of this part has completed, but earlier parts of the run
	 * have not left yet */
	bool gone;
	uint32_t pos, len; /* offset in the buffer, and size, in bytes */
	uint32_t at; /* offset in the window */
	/* value of run->head after this part was added; 0: the part is in the
	 * previous window */
	uint64_t end;
};

struct mpib_run {
	uint32_t off, size; /* range in the window */
	/* number of bytes added so far (head) and removed so far (tail); both 0
	 * if the run is empty */
	uint64_t head, tail;
	uint32_t part_head, part_tail; /* likewise the number of parts */
	struct mpib_staging_chunk part[MPIB_PARTS];
};

enum mpib_window_state {
	MPIB_WINDOW_NONE, /* not needed yet, or released */
	/* the window is empty; a thread claims the window by changing this
	 * state */
	MPIB_WINDOW_RESTS,
	MPIB_WINDOW_USED, /* the connection's thread uses it */
};

struct mpib_window {
	/* enum mpib_window_state; it protects the fields below */
	_Atomic unsigned state;
	/* value of client->sweeps when the state became MPIB_WINDOW_RESTS */
	_Atomic uint32_t sweep;
	char *base;
	uint32_t mr; /* id of the region that contains only the window */
	uint32_t size;
	uint32_t had; /* size of the largest window so far */
	/* ms: no other window is requested before this time */
	uint64_t again_ms;
	/* number of posts that found no room in the window (stage.c) */
	uint32_t no_room;
	uint32_t waiting; /* number of parts with `waits` set */
	/* A part failed together with the connection. Until the connection is
	 * closed, the peer may write to that part, or a QP may read it. So no
	 * further part is added. */
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

/* Mark the window as used. False: the connection has no window; get one under
 * the client's lock. */
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

/* Remove the newest n parts of the big run. These parts belong to r, and have
 * not been pushed. */
void mpib_window_untake(struct mpib_conn *conn, struct mpib_request *r,
			unsigned n);

/* Sender: copy the part into the window. False: not copied, because the
 * buffer's region is deregistered. */
bool mpib_window_copy_in(struct mpib_conn *conn, const struct mpib_request *r,
			 const struct mpib_staging_chunk *p);

/* Sender: detach the parts of r from r. Call this after r has completed, if the
 * connection has not failed. The parts may stay in the window after r is
 * reused, because they leave only after earlier parts of other requests. */
void mpib_window_forget(struct mpib_conn *conn, struct mpib_request *r);

/* Discard the window's contents and detach it from the connection. */
void mpib_window_drop(struct mpib_conn *conn);

/* Remove complete parts from the window. A receiver first copies their bytes to
 * the buffers of the requests. */
void mpib_window_drain(struct mpib_conn *conn);

/* pool.c, any thread. Return the size of a connection's first window. */
uint32_t mpib_window_first(const struct mpib_attached *at);
/* Under the client's lock. Get a window of at least `size` bytes for the index.
 * If the index has a smaller window, this window becomes x->before if it holds
 * parts (`busy`), and is released otherwise. */
int mpib_window_get(struct mpib_client *c, struct mpib_index *x, uint32_t size,
		    bool busy);
/* Under the client's lock. Release the index's windows. Never waits. */
void mpib_window_put(struct mpib_client *c, struct mpib_index *x);

/* Any thread, under the client's lock. If the last sweep was at least 30 s ago,
 * release the windows that have been empty since that sweep. Never waits. */
void mpib_windows_sweep(struct mpib_client *c, uint64_t now_ms);

#endif
