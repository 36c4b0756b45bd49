/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and places. A request is an object in the rank's memory. The proxy
 * identifies a request by its "place": the index of a completion in the reply
 * segment. A connection has MPIB_REQUESTS places. A receive has a place from
 * its post to its end. A send has a place from its first descriptor to its
 * completion. So a rank may have many more sends than the proxy must store.
 * Sends without a place wait in the feed queue (feed.c).
 *
 * Receives are answered in order, but sends come in any order of tags. So the
 * places and the bytes of the staging window (window.h) follow the same rule:
 * some are reserved for sends that the oldest unanswered receive wants, and any
 * send may use the others. If the shard has no matching send for that receive,
 * the shard publishes the missing tags, and how far it has read the ring
 * (struct mpib_want, segment.h).
 *
 * Why nothing hangs: assume that the oldest unanswered receive lacks a send,
 * that the rank posts or has queued this send, and that no place is free. Then
 * all places are used by other sends. If one of these sends was posted to a QP,
 * it completes, and find_place() of feed.c reuses its place, whether the send
 * was tested or not. If none of these sends was posted, all of them are queued
 * in the shard. So the shard polls for CTS, finds the receive and publishes its
 * tags. A receive has at most MPIB_GROUP_MAX buffers. The reserve has the same
 * number of places, and these are free again when the receive is answered. A
 * full feed queue still accepts a wanted send, so mpib_isend() does not hang
 * either.
 *
 * MPIB_SENDS_MAX: a caller may have 256 sends (for 32 receives of 8 buffers)
 * that have completed and are not tested, 256 that wait for their receives in
 * the feed queue, and some that have a place and wait for their receives.
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
/* Number of generations after which the place that was unused longest is used
 * next. */
#define MPIB_TURN (1u << 21)

struct mpib_conn;

struct mpib_buffer {
	int32_t tag;
	uint32_t size;
	char *addr;
	struct mpib_region *region;
};

/* The fields suffice to post the request again. The fast path uses only the
 * first cache line. */
struct mpib_request {
	_Alignas(256) struct mpib_conn *conn;
	/* next request in a list of `conn` or of its feed queue */
	struct mpib_request *next;
	/* NULL: the request has no place */
	const struct mpib_completion *completion;
	/* the fields `op`, `place`, `idx` and `n` of the descriptor, for a
	 * request of one buffer */
	uint8_t plain[4];
	/* Generation: odd; 2 more than that of the connection's previous
	 * request. No earlier word of the place has the same generation:
	 * mpib_place_take() skips a place that has such a word. */
	uint32_t gen;
	uint8_t n; /* buffers */
	/* The request is queued, staged, grouped, watched or at a place of the
	 * reserve, so test takes the slow path. The fields below, except `buf`,
	 * are used only if `slow` is set. */
	bool slow;
	bool flush : 1; /* made by mpib_iflush(); `gen` is the flush's number */
	/* the request holds a reference on each buffer's region */
	bool held : 1;
	bool feeding : 1; /* not wholly pushed yet */
	bool staged : 1; /* has bytes of ordinary memory */
	bool wanted : 1; /* a send that the oldest unanswered receive wants */
	/* completed with `result`; another request may use its place */
	bool over : 1;
	bool cancelled : 1; /* its region was deregistered before the copy */
	bool watched : 1; /* per-rail reports are wanted */
	uint16_t number; /* number of this request, < MPIB_SENDS_MAX */
	uint16_t parts; /* number of its parts in the window */
	struct mpib_buffer buf[MPIB_GROUP_MAX];
	uint64_t submitted; /* if `watched` is set: time of the post, in ns */
	uint32_t pos; /* bytes pushed */
	int32_t result;
};

_Static_assert(offsetof(struct mpib_request, buf[1]) == MPIB_CACHELINE,
	       "the first buffer is in the first cache line");

/* Return the index of the request's place. */
static inline uint8_t mpib_request_index(const struct mpib_request *r)
{
	return r->plain[1];
}

/* Requests that are not wholly pushed, oldest first: feed.c. */
struct mpib_feed {
	struct mpib_request *first, *last;
	uint32_t n;
	/* A sender's requests beyond the first MPIB_REQUESTS: an array of
	 * MPIB_SENDS_MAX - MPIB_REQUESTS entries. Entries from index `used` on
	 * were never used, so their pages are not allocated. */
	struct mpib_request *room;
	uint32_t used;
};

/* All functions below run on the connection's thread. */
/* Return an unused request of a sender, without a place, for a send with this
 * tag. NULL: none is free. */
struct mpib_request *mpib_feed_take(struct mpib_conn *conn, int32_t tag);
/* Append r. */
void mpib_feed_add(struct mpib_conn *conn, struct mpib_request *r);
/* Push queued requests while there is room. */
void mpib_feed(struct mpib_conn *conn);
/* Copy the result and the completion's sizes to r, so that another request can
 * use the place of r. */
void mpib_request_end(struct mpib_conn *conn, struct mpib_request *r,
		      int32_t result);
/* Set the generation of the unused request r to that of the completion word
 * that an earlier request left at r's place. */
void mpib_place_rest(struct mpib_request *r);
/* Put r, which is no longer in use, on the right list of unused requests. */
void mpib_request_give(struct mpib_conn *conn, struct mpib_request *r);
/* Return whether r has completed and its bytes have left the window. *res
 * becomes its result. */
bool mpib_request_over(struct mpib_conn *conn, struct mpib_request *r,
		       int32_t *res);
/*
 * Count the posted requests, because generations wrap. Call this function at
 * least once per lap of the ring, as mpib_conn_room() does. Once per MPIB_TURN
 * generations, also move the place that was unused longest to the front, so
 * that every place is used before generations wrap. The count and these moves
 * are both needed to derive from the completion words how many requests are
 * complete.
 */
void mpib_conn_lap(struct mpib_conn *conn);
/* Remove from the list the first request whose place can have the next
 * generation, and return this request. NULL: none. The list begins with the
 * request used last, which is still in the CPU's cache. */
struct mpib_request *mpib_place_take(struct mpib_conn *conn,
				     struct mpib_request **list);

/* The flushes of a connection, on its thread: client_flush.c. */
#define MPIB_FLUSHES_MAX 256u
/* Ring slots that grouped receives leave free for flushes. The shard handles a
 * flush even while earlier receives wait, because these receives may wait for a
 * message that the peer sends only after the flush. */
#define MPIB_FLUSHES_KEPT 8

struct mpib_flush_queue {
	/* array of MPIB_FLUSHES_MAX entries; NULL in a sending end */
	struct mpib_request *room;
	/* free entries of `room` that were used before */
	struct mpib_request *free;
	struct mpib_request *first, *last; /* not pushed yet, oldest first */
	/* entries of `room` from this index on were never used */
	uint32_t used;
	uint32_t asked; /* flushes so far */
};

/* Push waiting flushes, then return whether r is complete. */
bool mpib_flush_over(struct mpib_request *r);
/* For resume.c, after the connection's instance has stopped: mark completed
 * flushes, and collect the others in `left`, oldest first. Returns the number
 * of flushes in `left`. */
unsigned mpib_flush_left(struct mpib_conn *conn, struct mpib_request **left);
/* Queue these flushes again and number them from 1. */
void mpib_flush_repost(struct mpib_conn *conn, struct mpib_request *const *left,
		       unsigned n);
/* Release r. */
void mpib_flush_give(struct mpib_request *r);
void mpib_flush_close(struct mpib_conn *conn);

#endif
