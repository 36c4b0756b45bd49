/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stripes that were posted to one rail of one lane and are not acknowledged
 * yet, oldest first, with the time of their post. Round trips, rates and stalls
 * are computed from this list. Shard thread; every call is O(1) and takes the
 * time as an argument, so that tests can set it. Times are nanoseconds of
 * CLOCK_MONOTONIC.
 */
#ifndef MPIB_ENGINE_TRACKER_H
#define MPIB_ENGINE_TRACKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* Stripes up to this size measure a rail's latency rather than its rate. */
#define MPIB_TRACK_SMALL 16384u

/* One rail's part of a send op: what one chain of WRs carries. Must stay at its
 * address from post to ack or drop. */
struct mpib_stripe {
	TAILQ_ENTRY(mpib_stripe) link;
	uint64_t posted; /* 0: not in a tracker */
	uint32_t bytes;
	bool alone; /* nothing was in flight when it was posted */
	uint64_t ahead; /* mpib_tracker_queue() when it was posted */
};

TAILQ_HEAD(mpib_stripe_list, mpib_stripe);

/* What the ends of a round's stripes tell: those longer than MPIB_TRACK_SMALL
 * that were posted in the round and are acknowledged. */
struct mpib_track_ends {
	uint64_t since; /* begin of the round */
	uint64_t ns; /* from post to ack, summed up */
	uint64_t bytes; /* each stripe's, and those ahead of it */
	uint32_t n;
};

struct mpib_tracker {
	struct mpib_stripe_list unacked;
	uint64_t inflight; /* bytes */
	uint64_t *sum; /* bytes in flight of all lanes; NULL: of this only */
	/* Since the lane came up. */
	uint64_t acked, acked_bytes;
	uint64_t busy_ns; /* ended busy periods; see mpib_tracker_busy() */
	uint64_t busy_since; /* begin of the present busy period */
	uint64_t last_ack;
	/* Round trips; 0: none seen. */
	uint64_t srtt, rttvar; /* smoothed as in RFC 6298: 1/8, 1/4 */
	uint64_t latency; /* small stripes, idle rail; smoothed by 1/4 down, by
			     1/16 up */
	uint64_t latency_at;
	struct mpib_track_ends ends; /* whoever uses them begins the rounds */
};

void mpib_tracker_init(struct mpib_tracker *t);
/* now is not 0. */
void mpib_tracker_post(struct mpib_tracker *t, struct mpib_stripe *c,
		       uint32_t bytes, uint64_t now);
/* The stripe was acknowledged: it counts for all statistics. */
void mpib_tracker_ack(struct mpib_tracker *t, struct mpib_stripe *c,
		      uint64_t now);
/* The stripe failed or nobody waits for it: it counts for no statistics. Does
 * nothing if the stripe is not in a tracker. */
void mpib_tracker_drop(struct mpib_tracker *t, struct mpib_stripe *c,
		       uint64_t now);
/* The bytes in flight in front of what is posted now: those of all lanes, where
 * these are known, for they share the rail. */
static inline uint64_t mpib_tracker_queue(const struct mpib_tracker *t)
{
	return t->sum ? *t->sum : t->inflight;
}
/* The oldest stripe without an ack; NULL if all are acknowledged. */
static inline const struct mpib_stripe *
mpib_tracker_oldest(const struct mpib_tracker *t)
{
	return TAILQ_FIRST(&t->unacked);
}
/* Total ns, up to now, in which at least one stripe was unacknowledged. */
uint64_t mpib_tracker_busy(const struct mpib_tracker *t, uint64_t now);

#endif
