/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests, and their completion entries.
 *
 * A request is an object in the rank's memory. The shard reports the result of
 * a request in a completion entry (struct mpib_completion) of the reply
 * segment. The proxy identifies the request by the index of this entry. Each
 * connection has MPIB_REQUESTS completion entries. Functions and fields call
 * the completion entry of a request its "place".
 *
 * A receive has a completion entry from its post until mpib_test() reports the
 * receive as complete. A send has a completion entry from its first descriptor
 * to its completion. A send that has no completion entry yet waits in the
 * rank's feed queue (feed.c). So a rank may post many more sends than the
 * connection has completion entries.
 *
 * The shard answers receives in the order in which they were posted: for each
 * buffer of a receive, it finds one send with the buffer's tag. But the rank
 * may post sends in any order of tags. If the shard has no matching send for
 * the oldest unanswered receive, the shard publishes the missing tags and the
 * ring index up to which it has read (struct mpib_want, segment.h). A send with
 * such a tag is a "wanted" send. Some completion entries are reserved for
 * wanted sends. Any send may use the other completion entries. The staging
 * window is divided by the same rule (window.h).
 *
 * The reserved completion entries ensure that no request waits forever. Assume
 * that the oldest unanswered receive lacks a send. The rank is posting this
 * send, or has queued it, but other sends use all completion entries that are
 * not reserved.
 *
 * If the shard has posted one of these other sends to a QP, this send
 * completes. Then find_place() of feed.c reuses its completion entry, even if
 * the rank has not tested the send. If the shard has posted none of these other
 * sends, all of them are queued in the shard. Then the shard polls for CTS,
 * finds the receive and publishes its tags. After that, the missing send gets a
 * reserved completion entry.
 *
 * MPIB_GROUP_MAX completion entries are reserved. This is enough, because a
 * receive has at most MPIB_GROUP_MAX buffers, and the entries are free again
 * after the receive is answered. If the feed queue is full, mpib_isend() still
 * accepts a wanted send.
 *
 * MPIB_SENDS_MAX is the sum of three numbers: 256 sends that have completed but
 * are not tested yet (enough for 32 receives of 8 buffers), 256 sends in the
 * feed queue, and 32 sends that have completion entries.
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
/* After each MPIB_TURN generations, the next request uses the completion entry
 * that has been unused for the longest time. */
#define MPIB_TURN (1u << 21)

struct mpib_conn;

struct mpib_buffer {
	int32_t tag;
	uint32_t size;
	char *addr;
	struct mpib_region *region;
};

/* A request contains all data that is needed to post it again. The fast path
 * uses only the first cache line of a request. */
struct mpib_request {
	_Alignas(256) struct mpib_conn *conn;
	/* next request in the same list of the connection, or in the feed
	 * queue */
	struct mpib_request *next;
	/* the request's completion entry; NULL: none */
	const struct mpib_completion *completion;
	/* For a request of one buffer: the fields `op`, `req` (index of the
	 * completion entry), `idx` and `n` of its descriptor. */
	uint8_t plain[4];
	/* The request's generation: an odd number, 2 more than the generation
	 * of the connection's previous request. No older word in the request's
	 * completion entry has the same generation, because mpib_place_take()
	 * skips entries with such a word. */
	uint32_t gen;
	uint8_t n; /* number of entries of `buf` */
	/* True: mpib_test() takes the slow path, because the request is queued,
	 * staged, grouped or watched, or has a reserved completion entry. The
	 * fields below, except `buf`, are used only if `slow` is set. */
	bool slow;
	/* from mpib_iflush(); `gen` is the number of the flush */
	bool flush : 1;
	/* the request holds a reference on the region of each buffer */
	bool held : 1;
	bool feeding : 1; /* not completely pushed yet */
	bool staged : 1; /* at least one buffer is in ordinary memory */
	bool wanted : 1; /* a send that the oldest unanswered receive needs */
	/* The request has completed with `result`. Another request may already
	 * use its completion entry. */
	bool over : 1;
	/* the region was deregistered before the arrived bytes were copied to
	 * the buffer */
	bool cancelled : 1;
	/* the shard reports what each rail does for the request */
	bool watched : 1;
	/* number of this request in the connection, below MPIB_SENDS_MAX */
	uint16_t number;
	/* number of parts of this request in the staging window */
	uint16_t parts;
	struct mpib_buffer buf[MPIB_GROUP_MAX];
	/* time of the post, in ns; only if `watched` is set */
	uint64_t submitted;
	uint32_t pos; /* number of bytes pushed so far */
	int32_t result;
};

_Static_assert(offsetof(struct mpib_request, buf[1]) == MPIB_CACHELINE,
	       "the first buffer is in the first cache line");

/* Return the index of the request's completion entry. */
static inline uint8_t mpib_request_index(const struct mpib_request *r)
{
	return r->plain[1];
}

/* The feed queue (feed.c) contains the requests that are not completely pushed
 * yet, oldest first. */
struct mpib_feed {
	struct mpib_request *first, *last;
	uint32_t n; /* number of requests in the queue */
	/* Only in a sending end: an array of MPIB_SENDS_MAX - MPIB_REQUESTS
	 * requests, in addition to the requests of conn->req. The elements from
	 * index `used` on were never used, so the kernel has not allocated
	 * their pages. */
	struct mpib_request *room;
	uint32_t used;
};

/* All functions below run on the connection's thread. */
/* Return an unused request without a completion entry, for a send with this
 * tag. Return NULL if there is no unused request. Also return NULL if the feed
 * queue is full and the oldest unanswered receive does not need the send. */
struct mpib_request *mpib_feed_take(struct mpib_conn *conn, int32_t tag);
/* Append the request `r` to the feed queue. */
void mpib_feed_add(struct mpib_conn *conn, struct mpib_request *r);
/* Push queued requests until a completion entry, a ring slot or room in the
 * staging window is missing. */
void mpib_feed(struct mpib_conn *conn);
/* Copy the result and the sizes from the completion entry of `r` to `r`, so
 * that another request can use this entry. */
void mpib_request_end(struct mpib_conn *conn, struct mpib_request *r,
		      int32_t result);
/* Set the generation of the unused request `r` to the generation in its
 * completion word. An earlier request left this word. */
void mpib_place_rest(struct mpib_request *r);
/* Put the unused request `r` on the list for its kind of completion entry:
 * conn->free, conn->reserve or conn->bare. */
void mpib_request_give(struct mpib_conn *conn, struct mpib_request *r);
/* Return whether the request `r` has completed and its bytes have left the
 * staging window. If so, `*res` becomes the result of `r`. */
bool mpib_request_over(struct mpib_conn *conn, struct mpib_request *r,
		       int32_t *res);
/*
 * Update conn->posts, the number of posted requests. Unlike generations, this
 * number does not wrap. Call this function at least once per MPIB_RING_SLOTS
 * descriptors, as mpib_conn_room() does.
 *
 * After each MPIB_TURN generations, this function also moves the last request
 * of the list conn->free to the front of that list, and does the same with
 * conn->reserve. So every completion entry is used before generations wrap.
 *
 * mpib_conn_over() relies on both when it computes from the completion words
 * how many receives have completed.
 */
void mpib_conn_lap(struct mpib_conn *conn);
/* Remove the first usable request from the list and return it, or NULL if the
 * list has none. A request is usable if no word in its completion entry
 * contains the connection's next generation. The list begins with the request
 * that was used last, because that request is still in the CPU's cache. */
struct mpib_request *mpib_place_take(struct mpib_conn *conn,
				     struct mpib_request **list);

/* The flushes of a connection (client_flush.c). All functions run on the
 * connection's thread. */
#define MPIB_FLUSHES_MAX 256u
/* Number of ring slots that grouped receives leave free for flushes. The shard
 * handles a flush even while earlier receives wait, because these receives may
 * wait for a message that the peer sends only after the flush. */
#define MPIB_FLUSHES_KEPT 8

struct mpib_flush_queue {
	/* array of MPIB_FLUSHES_MAX elements; NULL in a sending end */
	struct mpib_request *room;
	/* list of the unused elements of `room` below index `used` */
	struct mpib_request *free;
	/* flushes that are not pushed yet, oldest first */
	struct mpib_request *first, *last;
	/* index of the first element of `room` that was never used */
	uint32_t used;
	/* number of flushes that were posted in this instance */
	uint32_t asked;
};

/* Push the queued flushes. Then return whether the flush `r` is complete. */
bool mpib_flush_over(struct mpib_request *r);
/* resume.c calls this after the connection's current instance has stopped. Mark
 * the completed flushes. Store the other flushes in `left`, oldest first, and
 * return their number. */
unsigned mpib_flush_left(struct mpib_conn *conn, struct mpib_request **left);
/* Queue the `n` flushes of `left` again, and number them from 1. */
void mpib_flush_repost(struct mpib_conn *conn, struct mpib_request *const *left,
		       unsigned n);
/* Release the flush `r`. */
void mpib_flush_give(struct mpib_request *r);
void mpib_flush_close(struct mpib_conn *conn);

#endif
