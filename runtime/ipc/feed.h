/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and places. A request is an object in the rank's memory. The proxy
 * identifies a request by its "place": the index of the request's completion in
 * the reply segment. A connection has MPIB_REQUESTS places. A receive has a
 * place from its post until mpib_test() reports it as complete. A send has a
 * place from its first descriptor to its completion. Sends without a place wait
 * in the rank's feed queue (feed.c). So a rank may post many more sends than
 * the connection has places.
 *
 * The shard answers receives in the order in which they were posted: it finds
 * one send for each buffer of a receive. But the rank may post sends in any
 * order of tags. So some places are reserved for "wanted" sends: sends that the
 * oldest unanswered receive needs. Any send may use the other places. The
 * staging window is divided by the same rule (window.h). If the shard has no
 * matching send for the oldest unanswered receive, the shard publishes the
 * missing tags and the ring index up to which it has read (struct mpib_want,
 * segment.h).
 *
 * Why no request waits forever: assume that the oldest unanswered receive lacks
 * a send. The rank posts this send, or has queued it, but other sends use all
 * places that are not reserved. If the shard has posted one of these other
 * sends to a QP, this send completes. Then find_place() of feed.c reuses the
 * place of this send, even if the rank has not tested the send. If the shard
 * has posted none of these other sends, all of them are queued in the shard. So
 * the shard polls for CTS, finds the receive and publishes its tags. Then the
 * missing send gets a reserved place. The number of reserved places is
 * MPIB_GROUP_MAX. This is enough, because a receive has at most MPIB_GROUP_MAX
 * buffers, and the places are free again when the receive is answered. A wanted
 * send is accepted even if the feed queue is full, so mpib_isend() does not
 * refuse it forever.
 *
 * MPIB_SENDS_MAX is the sum of three numbers: 256 sends that have completed but
 * are not tested yet (enough for 32 receives of 8 buffers), 256 sends in the
 * feed queue, and 32 sends that have places.
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
/* After each MPIB_TURN generations, the place that has been unused for the
 * longest time is used next. */
#define MPIB_TURN (1u << 21)

struct mpib_conn;

struct mpib_buffer {
	int32_t tag;
	uint32_t size;
	char *addr;
	struct mpib_region *region;
};

/* The fields contain all data needed to post the request again. The fast path
 * uses only the first cache line. */
struct mpib_request {
	_Alignas(256) struct mpib_conn *conn;
	/* next request in the same list of `conn`, or in the feed queue */
	struct mpib_request *next;
	/* the completion at the request's place; NULL: no place */
	const struct mpib_completion *completion;
	/* for a request of one buffer: the fields `op`, `req` (the place),
	 * `idx` and `n` of the request's descriptor */
	uint8_t plain[4];
	/* The generation is odd, and 2 more than the generation of the
	 * connection's previous request. No older word at the request's place
	 * has the same generation, because mpib_place_take() skips such
	 * places. */
	uint32_t gen;
	uint8_t n; /* number of buffers */
	/* True: mpib_test() takes the slow path, because the request is queued,
	 * staged, grouped or watched, or has a reserved place. The fields
	 * below, except `buf`, are used only if `slow` is set. */
	bool slow;
	bool flush : 1; /* made by mpib_iflush(); `gen` is the flush's number */
	/* the request holds a reference on each buffer's region */
	bool held : 1;
	bool feeding : 1; /* not completely pushed yet */
	bool staged : 1; /* at least one buffer is ordinary memory */
	bool wanted : 1; /* a send that the oldest unanswered receive needs */
	/* The request has completed with `result`. Another request may already
	 * use the place that this request had. */
	bool over : 1;
	/* the region was deregistered before arrived bytes were copied to it */
	bool cancelled : 1;
	bool watched : 1; /* the shard reports what each rail does for it */
	uint16_t number; /* number of this request, < MPIB_SENDS_MAX */
	uint16_t parts; /* number of this request's parts in the window */
	struct mpib_buffer buf[MPIB_GROUP_MAX];
	uint64_t submitted; /* if `watched` is set: time of the post, in ns */
	uint32_t pos; /* number of bytes pushed so far */
	int32_t result;
};

_Static_assert(offsetof(struct mpib_request, buf[1]) == MPIB_CACHELINE,
	       "the first buffer is in the first cache line");

/* Return the index of the request's place. */
static inline uint8_t mpib_request_index(const struct mpib_request *r)
{
	return r->plain[1];
}

/* The feed queue (feed.c): requests that are not completely pushed, oldest
 * first. */
struct mpib_feed {
	struct mpib_request *first, *last;
	uint32_t n; /* number of requests in the queue */
	/* A sender's requests beyond the first MPIB_REQUESTS: an array of
	 * MPIB_SENDS_MAX - MPIB_REQUESTS entries. Entries from index `used` on
	 * were never used, so their pages are not allocated. */
	struct mpib_request *room;
	uint32_t used;
};

/* All functions below run on the connection's thread. */
/* Return an unused request, without a place, for a send with this tag. NULL: no
 * request is free; or the feed queue is full, and no receive wants this
 * send. */
struct mpib_request *mpib_feed_take(struct mpib_conn *conn, int32_t tag);
/* Append r to the feed queue. */
void mpib_feed_add(struct mpib_conn *conn, struct mpib_request *r);
/* Push queued requests until a place, a ring slot or room in the window is
 * missing. */
void mpib_feed(struct mpib_conn *conn);
/* Copy the result and the completion's sizes to r, so that another request can
 * use the place of r. */
void mpib_request_end(struct mpib_conn *conn, struct mpib_request *r,
		      int32_t result);
/* Set r->gen of the unused request r to the generation of the completion word
 * at r's place. An earlier request left this word. */
void mpib_place_rest(struct mpib_request *r);
/* Put the unused request r on one of the lists conn->free, conn->reserve and
 * conn->bare. The place of r determines the list. */
void mpib_request_give(struct mpib_conn *conn, struct mpib_request *r);
/* Return whether r has completed and its bytes have left the window. *res
 * becomes the result of r. */
bool mpib_request_over(struct mpib_conn *conn, struct mpib_request *r,
		       int32_t *res);
/*
 * Update conn->posts, the number of posted requests, which does not wrap as
 * generations do. Call this function at least once per lap of the ring
 * (MPIB_RING_SLOTS descriptors), as mpib_conn_room() does. After each MPIB_TURN
 * generations, also move the last request of conn->free and the last request of
 * conn->reserve to the front of its list, so that every place is used before
 * generations wrap. mpib_conn_over() needs the count and these moves: it
 * computes from the completion words how many receives have completed.
 */
void mpib_conn_lap(struct mpib_conn *conn);
/* Find the first request on the list at whose place no word contains the next
 * generation. Remove this request from the list and return it. NULL: the list
 * has no such request. The list begins with the request that was used last,
 * because the CPU's cache still has this request. */
struct mpib_request *mpib_place_take(struct mpib_conn *conn,
				     struct mpib_request **list);

/* The flushes of a connection (client_flush.c). All functions run on the
 * connection's thread. */
#define MPIB_FLUSHES_MAX 256u
/* Ring slots that grouped receives leave free for flushes. The shard handles a
 * flush even while earlier receives wait, because these receives may wait for a
 * message that the peer sends only after the flush. */
#define MPIB_FLUSHES_KEPT 8

struct mpib_flush_queue {
	/* array of MPIB_FLUSHES_MAX entries; NULL in a sending end */
	struct mpib_request *room;
	/* list of the free entries of `room` below index `used` */
	struct mpib_request *free;
	/* flushes that are not pushed yet, oldest first */
	struct mpib_request *first, *last;
	/* entries of `room` from this index on were never used */
	uint32_t used;
	uint32_t asked; /* number of flushes so far */
};

/* Push waiting flushes, then return whether r is complete. */
bool mpib_flush_over(struct mpib_request *r);
/* For resume.c, after the connection's instance has stopped: mark the completed
 * flushes, and store the other flushes in `left`, oldest first. Returns the
 * number of flushes in `left`. */
unsigned mpib_flush_left(struct mpib_conn *conn, struct mpib_request **left);
/* Queue the n flushes of `left` again. The first of them gets number 1. */
void mpib_flush_repost(struct mpib_conn *conn, struct mpib_request *const *left,
		       unsigned n);
/* Release r. */
void mpib_flush_give(struct mpib_request *r);
void mpib_flush_close(struct mpib_conn *conn);

#endif
