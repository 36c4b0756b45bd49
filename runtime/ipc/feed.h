/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and places. A request lives in the rank. The proxy knows it by its
 * place: an index and a completion in the reply segment, of which a connection
 * has MPIB_REQUESTS. A receive has a place from its post to its end. A send has
 * one from its first descriptor to the completion, so a rank may have far more
 * sends than the proxy must keep. Sends that have no place wait in the feed
 * queue (feed.c).
 *
 * Receives are answered in order, and sends come in any order of tags. So there
 * is one rule, for places and for the staging window (window.h): a send enters
 * while there is room besides a reserve, and the reserve is for sends that the
 * oldest unanswered receive wants. When the shard has that receive and no send
 * for it, it publishes the missing tags and how far it had read the ring
 * (struct mpib_want, segment.h).
 *
 * Why nothing hangs: let the oldest unanswered receive lack a send that the rank
 * offers or has queued. If no place is free, others' sends have them all.
 * Posted sends complete, and find_place() of feed.c reuses their places, tested
 * or not. If none is of that kind, all are queued in the shard, which therefore
 * polls for CTS, finds the receive and publishes it. A receive has at most
 * MPIB_GROUP_MAX buffers, so the reserve of as many places is enough for it,
 * and is free again when the receive is answered. The feed queue takes a send
 * that is wanted even when it is full, so the same holds for mpib_isend().
 *
 * MPIB_SENDS_MAX: a caller may have the sends of 32 receives of 8 buffers
 * answered and not tested, as many that wait for their receives in the feed queue,
 * and some that wait at places.
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
/* Each time that generations grew by this, the place that rested longest is used. */
#define MPIB_TURN (1u << 21)

struct mpib_conn;

struct mpib_buffer {
	int32_t tag;
	uint32_t size;
	char *addr;
	struct mpib_region *region;
};

/* These members are enough to post the request again. A request of one buffer
 * that takes the fast path uses the first cache line alone. */
struct mpib_request {
	_Alignas(256) struct mpib_conn *conn;
	struct mpib_request *next; /* on the list that it is on */
	const struct mpib_completion *completion; /* NULL: it has no place */
	uint8_t plain[4]; /* op, place, idx, n of a request of one buffer */
	/* Generation: odd, that of the connection's use of a place before it
	 * plus two. No completion word of an earlier use of the place equals
	 * it: mpib_place_take() skips such a place. */
	uint32_t gen;
	uint8_t n; /* buffers */
	/* Queued, staged, grouped, watched or at a place of the reserve: takes
	 * test's slow path. All members below but buf are used only then. */
	bool slow;
	bool flush : 1; /* of mpib_iflush(), see client_flush.c; gen is its number */
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

/* Its place. */
static inline uint8_t mpib_request_index(const struct mpib_request *r)
{
	return r->plain[1];
}

/* Requests that are not wholly pushed, oldest first: feed.c. */
struct mpib_feed {
	struct mpib_request *first, *last;
	uint32_t n;
	/* A sender's further requests, MPIB_SENDS_MAX - MPIB_REQUESTS; those
	 * behind used were never used, so that their pages are not there. */
	struct mpib_request *room;
	uint32_t used;
};

/* All on the connection's thread. */
/* A sender's request without a place for a send of the tag. NULL: none. */
struct mpib_request *mpib_feed_take(struct mpib_conn *conn, int32_t tag);
/* Append r. */
void mpib_feed_add(struct mpib_conn *conn, struct mpib_request *r);
/* Push queued requests as far as there is room. */
void mpib_feed(struct mpib_conn *conn);
/* Store the result and the sizes of r's completion in r, so that another
 * request can have its place. */
void mpib_request_end(struct mpib_conn *conn, struct mpib_request *r,
		      int32_t result);
/* The same by the word of r, wholly pushed. False: r has not completed. */
bool mpib_request_note(struct mpib_conn *conn, struct mpib_request *r);
/* No request is posted at the place of r: the word there is an earlier one's. */
void mpib_place_rest(struct mpib_request *r);
/* r is in use no more. */
void mpib_request_give(struct mpib_conn *conn, struct mpib_request *r);
/* Whether r has completed, with *res, and its bytes are out of the window. */
bool mpib_request_over(struct mpib_conn *conn, struct mpib_request *r,
		       int32_t *res);
/*
 * Call this at least once per lap of the ring: mpib_conn_room() does. It counts the
 * posted requests, so that generations, which wrap, can be told apart. Once per
 * MPIB_TURN generations it moves the place that was unused longest to the front, so
 * that no place is unused until generations wrap. Both are needed to tell from the
 * completion words how many requests are done.
 */
void mpib_conn_lap(struct mpib_conn *conn);
/* Take the first request off the list whose place can have the next generation: it
 * was used last, so its cache lines are still in the cache. NULL: none. */
struct mpib_request *mpib_place_take(struct mpib_conn *conn,
				     struct mpib_request **list);

/* The flushes of a connection, on its thread: client_flush.c. */
#define MPIB_FLUSHES_MAX 256u
/* Ring slots that grouped receives leave free for flushes. The shard handles a
 * flush even if earlier receives wait, because they may wait for a message that
 * follows the flush. */
#define MPIB_FLUSHES_KEPT 8

struct mpib_flush_queue {
	struct mpib_request *room; /* MPIB_FLUSHES_MAX; NULL: none needed */
	struct mpib_request *free; /* that were used and are done */
	struct mpib_request *first, *last; /* not pushed yet, oldest first */
	uint32_t used; /* of room: those behind were never used */
	uint32_t asked; /* flushes so far */
};

/* Whether r is done; pushes what waits. */
bool mpib_flush_over(struct mpib_request *r);
/* The connection's instance has stopped (resume.c). Keep completed flushes, and
 * move the others to left, oldest first. Returns their number. */
unsigned mpib_flush_left(struct mpib_conn *conn, struct mpib_request **left);
/* Post them again, counted from the first on. */
void mpib_flush_repost(struct mpib_conn *conn, struct mpib_request *const *left,
		       unsigned n);
/* Release r. */
void mpib_flush_give(struct mpib_request *r);
void mpib_flush_close(struct mpib_conn *conn);

#endif
