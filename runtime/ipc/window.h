/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection's staging window, cut into two runs. Parts leave a run in the
 * order in which they were put in. While a send waits for its receive, its
 * parts block later parts of the run. So the runs follow the rule of feed.h:
 *
 * - In the big run parts may wait for receives.
 * - The small run is reserved for sends that match the current receive: the
 *   shard has published them as wanted, or has sent earlier parts of them.
 *   These sends use the big run first.
 *
 * If a send matches the current receive, the shard posts each part of the send
 * at once, so these parts always leave the run. So the sends for the current
 * receive are never blocked by sends that wait for later receives. A receiver's
 * parts leave in the order of the receives, so its whole window is the big run.
 *
 * The runs are used only on the connection's thread, inside post and test.
 *
 * A connection begins with a small window, since most connections carry little
 * and the kernel takes time to allocate pages. The connection gets a whole
 * window after several posts have found no room (stage.c). The parts that the
 * small window then holds stay there until they leave in their order.
 *
 * Any thread that holds the client's lock may release a window that was idle
 * for a long time (mpib_windows_sweep()). So the connection's thread marks the
 * window as used before it adds a part, and as resting when the window is
 * empty.
 */
#ifndef MPIB_IPC_WINDOW_H
#define MPIB_IPC_WINDOW_H

#include <mpib/abi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define MPIB_WINDOW_MAX (1u << 30)
#define MPIB_PARTS 256 /* maximum number of parts in one run */
/* Maximum number of parts that wait for receives. The shard can store 64
 * descriptors of a connection. These must suffice for one descriptor per
 * waiting part, one per place without a waiting part, and the descriptors of a
 * send whose receive is known. */
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
	/* the shard may not know the receive of this part's send yet */
	bool waits;
	/* the send of this part has completed, but earlier parts have not left
	 * yet */
	bool gone;
	uint32_t pos, len; /* range in that buffer */
	uint32_t at; /* offset in the window */
	/* run->head after this part; 0: the part is in the previous window */
	uint64_t end;
};

struct mpib_run {
	uint32_t off, size; /* range in the window */
	/* bytes added and removed so far; both 0 when empty */
	uint64_t head, tail;
	uint32_t part_head, part_tail;
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
	_Atomic unsigned state; /* enum mpib_window_state; protects all below */
	/* value of client->sweeps when the window began to rest */
	_Atomic uint32_t sweep;
	char *base;
	uint32_t mr; /* region that contains the window and nothing else */
	uint32_t size;
	uint32_t had; /* size of the largest window so far */
	/* ms: time before which no other window is requested */
	uint64_t again_ms;
	/* number of posts that found no room in the window (stage.c) */
	uint32_t no_room;
	uint32_t waiting; /* number of parts with `waits` set */
	/* A part failed together with the connection. Until the connection is
	 * closed, the peer may write to the part, or a QP may read it. So no
	 * part is added. */
	bool lost;
	_Atomic uint32_t before; /* number of parts in the previous window */
	char *base_before;
	struct mpib_run big, small;
};

/* Cut a new window of w->size bytes into runs. Existing parts stay in the
 * previous window. `keep` is the maximum size of the small run. */
void mpib_window_cut(struct mpib_window *w, uint32_t keep);

/* Return true if the window holds no part, and no proxy can still access a
 * former part. */
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

/* Mark the window as resting: it is empty, and nothing waits for room in it. */
void mpib_window_rest(struct mpib_conn *conn);

/* Reserve room for the next part of buffer i of r, at most `len` bytes. NULL:
 * there is no room now. */
struct mpib_staging_chunk *mpib_window_take(struct mpib_conn *conn,
					    struct mpib_request *r, unsigned i,
					    uint32_t len);

/* Remove the newest n parts, which were added to the big run for r and not
 * pushed. */
void mpib_window_untake(struct mpib_conn *conn, struct mpib_request *r,
			unsigned n);

/* Sender: copy the part into the window. False: its region is deregistered. */
bool mpib_window_copy_in(struct mpib_conn *conn, const struct mpib_request *r,
			 const struct mpib_staging_chunk *p);

/* Sender: r has completed, and its connection has not failed. Detach r's parts
 * from r, because the parts leave the window only after earlier parts of other
 * requests. */
void mpib_window_forget(struct mpib_conn *conn, struct mpib_request *r);

/* Discard the window's contents and detach it from the connection. */
void mpib_window_drop(struct mpib_conn *conn);

/* Remove complete parts from the window; a receiver copies their bytes
 * first. */
void mpib_window_drain(struct mpib_conn *conn);

/* pool.c, any thread. Return the size of a connection's first window. */
uint32_t mpib_window_first(const struct mpib_attached *at);
/* Under the client's lock. Get a window of at least `size` bytes for the index.
 * A smaller window is released, or becomes x->before if it holds parts
 * (`busy`). */
int mpib_window_get(struct mpib_client *c, struct mpib_index *x, uint32_t size,
		    bool busy);
/* Under the client's lock. Release the index's windows. Never waits. */
void mpib_window_put(struct mpib_client *c, struct mpib_index *x);

/* Any thread, under the client's lock. If the last sweep was at least half a
 * minute ago, release the windows that have rested since then. Never waits. */
void mpib_windows_sweep(struct mpib_client *c, uint64_t now_ms);

#endif
