/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and places. A request is in the rank's memory. The proxy knows it by
 * its place: an index and a completion in the reply segment. A connection has
 * MPIB_REQUESTS places. A receive has a place from its post to its end. A send
 * has one from its first descriptor to its completion, so a rank may have far
 * more sends than the proxy must keep. Sends without a place wait in the feed
 * queue (feed.c).
 *
 * Receives are answered in order, and sends come in any order of tags. So there
 * is one rule, for places and for the staging window (window.h): a send enters
 * while there is room besides a reserve, and the reserve is for sends that the
 * oldest unanswered receive wants. When the shard has that receive and no send
 * for it, it publishes the missing tags and how far it has read the ring
 * (struct mpib_want, segment.h).
 *
 * Why nothing hangs: assume that the oldest unanswered receive lacks a send
 * that the rank posts or has queued, and that no place is free. Then other
 * sends have all places. If one of them has been posted to a QP, it completes,
 * and find_place() of feed.c reuses its place, tested or not. Otherwise all are
 * queued in the shard. So the shard polls for CTS, finds the receive and
 * publishes its tags. A receive has at most MPIB_GROUP_MAX buffers, and the
 * reserve has as many places, which are free again when the receive is
 * answered. A full feed queue still takes a wanted send, so the same holds for
 * mpib_isend().
 *
 * MPIB_SENDS_MAX: a caller may have 256 sends (of 32 receives of 8 buffers)
 * that are answered and not tested, 256 that wait for their receives in the
 * feed queue, and some that wait at places.
 */
#ifndef MPIB_IPC_FEED_H
#define MPIB_IPC_FEED_H

#include <mpib/client.h>
#include <mpib/segment.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MPIB_RESERVE MPIB_GROUP_MAX
#define MPIB_SENDS_QUEUED (MPIB_REQUESTS * MPIB_GROUP_MAX)
#define MPIB_SENDS_MAX MPIB_REQUEST_SLOTS
/* After each so many generations the place that was unused longest is used. */
#define MPIB_TURN (1u << 21)

struct mpib_conn;

struct mpib_buffer {
	int32_t tag;
	uint32_t size;
	char *addr;
	struct mpib_region *region;
};

/* The members suffice to post the request again. On the fast path only the
 * first cache line is used. */
struct mpib_request {
	_Alignas(256) struct mpib_conn *conn;
	struct mpib_request *next; /* on its list of conn or of the feed */
	const struct mpib_completion *completion; /* NULL: it has no place */
	uint8_t plain[4]; /* op, place, idx, n of a request of one buffer */
	/* Generation: odd; two more than that of the connection's request
	 * before. No earlier word of the place has the same one:
	 * mpib_place_take() skips places for which that is not so. */
	uint32_t gen;
	uint8_t n; /* buffers */
	/* Queued, staged, grouped, watched or at a place of the reserve: test
	 * takes the slow path. The members below, except buf, are used only
	 * then. */
	bool slow;
	bool flush : 1; /* of mpib_iflush(); gen is the flush's number */
	bool held : 1; /* holds a reference on each buffer's region */
	bool feeding : 1; /* not wholly pushed yet */
	bool staged : 1; /* has bytes of ordinary memory */
	bool wanted : 1; /* a send that the oldest unanswered receive wants */
	bool over : 1; /* completed with result, and its place is another's */
	bool cancelled : 1; /* its region was deregistered before the copy */
	bool watched : 1; /* the profiler wants per-rail reports */
	uint16_t number; /* in the connection, < MPIB_SENDS_MAX */
	uint16_t parts; /* in the window */
	struct mpib_buffer buf[MPIB_GROUP_MAX];
	uint64_t submitted; /* watched: when it was posted, ns */
	uint32_t pos; /* bytes pushed */
	int32_t result;
};

_Static_assert(offsetof(struct mpib_request, buf[1]) == MPIB_CACHELINE,
	       "the first buffer is in the first cache line");

/* Return the index of its place. */
static inline uint8_t mpib_request_index(const struct mpib_request *r)
{
	return r->plain[1];
}

/* Requests that are not wholly pushed, oldest first: feed.c. */
struct mpib_feed {
	struct mpib_request *first, *last;
	uint32_t n;
	/* A sender's further requests, MPIB_SENDS_MAX - MPIB_REQUESTS. Those
	 * from used on were never used, so their pages are not allocated. */
	struct mpib_request *room;
	uint32_t used;
};

/* All on the connection's thread. */
/* Take a sender's request, without a place, for a send of the tag. NULL:
 * none. */
struct mpib_request *mpib_feed_take(struct mpib_conn *conn, int32_t tag);
/* Append r. */
void mpib_feed_add(struct mpib_conn *conn, struct mpib_request *r);
/* Push queued requests as far as there is room. */
void mpib_feed(struct mpib_conn *conn);
/* Store the result, and the sizes of the completion, in r, so that another
 * request can have the place of r. */
void mpib_request_end(struct mpib_conn *conn, struct mpib_request *r,
		      int32_t result);
/* r is unused: give it the generation of the word at its place, an earlier
 * request's. */
void mpib_place_rest(struct mpib_request *r);
/* r is not in use any more: put it on the right list of unused requests. */
void mpib_request_give(struct mpib_conn *conn, struct mpib_request *r);
/* Return whether r has completed, with *res, and its bytes have left the
 * window. */
bool mpib_request_over(struct mpib_conn *conn, struct mpib_request *r,
		       int32_t *res);
/*
 * Call this at least once per lap of the ring: mpib_conn_room() does. It counts
 * the posted requests, so that generations, which wrap, can be told apart. Once
 * per MPIB_TURN generations it moves the place that was unused longest to the
 * front, so that no place is unused until generations wrap. Both are needed to
 * tell from the completion words how many requests are done.
 */
void mpib_conn_lap(struct mpib_conn *conn);
/* Take the first request off the list whose place can have the next generation.
 * It was used last, so its cache lines are still in the cache. NULL: none. */
struct mpib_request *mpib_place_take(struct mpib_conn *conn,
				     struct mpib_request **list);

/* The flushes of a connection, on its thread: client_flush.c. */
#define MPIB_FLUSHES_MAX 256u
/* Ring slots that grouped receives leave free for flushes. The shard handles a
 * flush even if earlier receives wait: they may wait for a message that the
 * peer sends only after the flush. */
#define MPIB_FLUSHES_KEPT 8

struct mpib_flush_queue {
	struct mpib_request *room; /* MPIB_FLUSHES_MAX; NULL: no dma-bufs */
	struct mpib_request *free; /* used before, and unused now */
	struct mpib_request *first, *last; /* not pushed yet, oldest first */
	uint32_t used; /* those of room from here on were never used */
	uint32_t asked; /* flushes so far */
};

/* Return whether r is complete; pushes waiting flushes. */
bool mpib_flush_over(struct mpib_request *r);
/* The connection's instance has stopped (resume.c). Mark completed flushes, and
 * collect the others in left, oldest first. Returns their number. */
unsigned mpib_flush_left(struct mpib_conn *conn, struct mpib_request **left);
/* Queue them again, numbered from the first on. */
void mpib_flush_repost(struct mpib_conn *conn, struct mpib_request *const *left,
		       unsigned n);
/* Release r. */
void mpib_flush_give(struct mpib_request *r);
void mpib_flush_close(struct mpib_conn *conn);

#endif
