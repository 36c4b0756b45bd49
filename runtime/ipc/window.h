/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection's staging window, cut into two runs whose parts leave in the
 * order taken. A part of a send that waits for its receive blocks those behind
 * it. So, by the rule of feed.h:
 *
 * - In the big run parts may wait.
 * - The small run is reserved for sends that have their receive: it was
 *   published as wanted, or earlier parts were sent. These sends use the big run
 *   first.
 *
 * The shard posts the parts of a send that has its receive as they come, so they
 * leave. Hence the sends of the receive that is being answered get through,
 * however many wait for later ones. A receiver's parts leave in the order of the
 * receives, and all of its window is the big run.
 *
 * On the connection's thread, inside post and test.
 *
 * A connection begins with a small window, since most connections carry little and
 * the kernel takes time to make pages. It gets a whole window after a number of
 * posts had to wait for room (stage.c). Parts in the small window leave it in
 * order.
 *
 * A window that nothing used for long is given back (mpib_windows_sweep()), by
 * any thread that holds the client's lock. So the connection's thread marks it
 * as used before it puts something in, and lets it rest when it is empty.
 */
#ifndef MPIB_IPC_WINDOW_H
#define MPIB_IPC_WINDOW_H

#include <mpib/abi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define MPIB_WINDOW_MAX (1u << 30)
#define MPIB_PARTS 256 /* of one run */
/* Parts that may wait at once. Together with a descriptor for each other place,
 * they leave the shard, which holds 64, room for parts of a send that has its
 * receive. */
#define MPIB_PARTS_WAITING 32

/* Return the bytes of the window that a part of len bytes uses. */
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
	uint8_t idx; /* buffer of a grouped receive */
	bool waits; /* its send may have no receive yet */
	bool gone; /* its send is done, and the part still keeps its place */
	uint32_t pos, len; /* in that buffer */
	uint32_t at; /* in the window */
	uint64_t end; /* the run's head behind it; 0: in the window before */
};

struct mpib_run {
	uint32_t off, size; /* in the window */
	uint64_t head, tail; /* running byte counts; both 0 when empty */
	uint32_t part_head, part_tail;
	struct mpib_staging_chunk part[MPIB_PARTS];
};

enum mpib_window_state {
	MPIB_WINDOW_NONE, /* never needed yet, or given back */
	MPIB_WINDOW_RESTS, /* empty; the thread that changes this owns it */
	MPIB_WINDOW_USED, /* by the connection's thread */
};

struct mpib_window {
	_Atomic unsigned state; /* of all below: enum mpib_window_state */
	_Atomic uint32_t sweep; /* the client's sweeps when it came to rest */
	char *base;
	uint32_t mr; /* of which the window is all */
	uint32_t size;
	uint32_t had; /* size of the largest so far */
	uint64_t again_ms; /* no other is asked for before that */
	uint32_t no_room; /* posts that found none in it; stage.c */
	uint32_t waiting; /* parts with waits set */
	/* A part of it ended with the connection: until that is closed the peer
	 * may still write there, or a QP read it. So nothing else gets room. */
	bool lost;
	_Atomic uint32_t before; /* parts in the window before */
	char *base_before;
	struct mpib_run big, small;
};

/* Cut a new window of w->size bytes; parts that there are stay in the one before
 * until they leave. keep: bytes of the small run, at most; 0: none. */
void mpib_window_cut(struct mpib_window *w, uint32_t keep);

/* Return whether the window holds no part, and no proxy may still use an
 * earlier one. */
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

/* Have the window, if there is one. False: get one under the client's lock. */
static inline bool mpib_window_use(struct mpib_window *w)
{
	unsigned rests = MPIB_WINDOW_RESTS;

	/* Relaxed: only this thread sets USED. Acquire: the thread that let
	 * the window rest, or got it, is done with it. */
	return atomic_load_explicit(&w->state, memory_order_relaxed) ==
		       MPIB_WINDOW_USED ||
	       atomic_compare_exchange_strong_explicit(
		       &w->state, &rests, MPIB_WINDOW_USED,
		       memory_order_acquire, memory_order_relaxed);
}

/* It is empty, and nothing waits for room in it. */
void mpib_window_rest(struct mpib_conn *conn);

/* Take room for the next part of buffer i of r, at most len bytes of it. NULL:
 * there is none now. */
struct mpib_staging_chunk *mpib_window_take(struct mpib_conn *conn,
					    struct mpib_request *r, unsigned i,
					    uint32_t len);

/* Give back the newest n parts, which were taken of the big run for r and not
 * pushed. */
void mpib_window_untake(struct mpib_conn *conn, struct mpib_request *r,
			unsigned n);

/* Sender: copy the part into the window. False: its region is deregistered. */
bool mpib_window_copy_in(struct mpib_conn *conn, const struct mpib_request *r,
			 const struct mpib_staging_chunk *p);

/* Sender: r has completed, and not as its connection failed. Parts of r that
 * follow those of other requests may stay in the window after r ends. */
void mpib_window_forget(struct mpib_conn *conn, struct mpib_request *r);

/* Discard the window's contents and detach it from the connection. */
void mpib_window_drop(struct mpib_conn *conn);

/* Take parts that are done out of the window; a receiver copies them out. */
void mpib_window_drain(struct mpib_conn *conn);

/* pool.c, any thread. Bytes of a window that has carried little: making the pages
 * of a whole one takes a millisecond, and their memory. */
uint32_t mpib_window_first(const struct mpib_attached *at);
/* Under the client's lock. Get the index a window of at least size bytes. A
 * smaller one is released, or, if busy (it holds parts), becomes x->before. */
int mpib_window_get(struct mpib_client *c, struct mpib_index *x, uint32_t size,
		    bool busy);
/* Under the client's lock. Release the index's windows. Never waits. */
void mpib_window_put(struct mpib_client *c, struct mpib_index *x);

/* Any thread, under the client's lock: give back the windows that rested
 * since before the last sweep, if that is half a minute ago. Never waits. */
void mpib_windows_sweep(struct mpib_client *c, uint64_t now_ms);

#endif
