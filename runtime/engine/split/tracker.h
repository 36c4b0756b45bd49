/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one rail of one lane was given and has not acknowledged: oldest first,
 * with the time it was posted. Round trips, rates and stalls are read from
 * here. Shard thread; every call is O(1) and takes the time as an argument, so
 * that tests set it by hand. Times are nanoseconds of CLOCK_MONOTONIC.
 */
#ifndef MPIB_ENGINE_TRACKER_H
#define MPIB_ENGINE_TRACKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* Stripes up to this size tell a rail's latency rather than its rate. */
#define MPIB_TRACK_SMALL 16384u

/* One rail's share of a send op: what one chain of WRs carries. In place from
 * post to ack or drop. */
struct mpib_stripe {
	TAILQ_ENTRY(mpib_stripe) link;
	uint64_t posted; /* 0: not in a tracker */
	uint32_t bytes;
	bool alone; /* nothing was ahead of it */
	uint64_t ahead; /* bytes in flight when it was posted */
};

TAILQ_HEAD(mpib_stripe_list, mpib_stripe);

struct mpib_tracker {
	struct mpib_stripe_list unacked;
	uint64_t inflight; /* bytes */
	uint64_t *sum; /* these are counted there, too; may be NULL */
	/* Since the lane came up. */
	uint64_t acked, acked_bytes;
	uint64_t busy_ns; /* something was unacked; see mpib_tracker_busy() */
	uint64_t busy_since;
	uint64_t last_ack;
	/* Of round trips; 0: none seen. */
	uint64_t srtt, rttvar; /* smoothed as in RFC 6298: 1/8, 1/4 */
	uint64_t
		latency; /* of small stripes on an idle rail, smoothed by 1/4 */
	uint64_t latency_at;
};

void mpib_tracker_init(struct mpib_tracker *t);
/* now is not 0. */
void mpib_tracker_post(struct mpib_tracker *t, struct mpib_stripe *c,
		       uint32_t bytes, uint64_t now);
/* It arrived: a sample of everything. */
void mpib_tracker_ack(struct mpib_tracker *t, struct mpib_stripe *c,
		      uint64_t now);
/* It failed, or is forgotten: no sample. Nothing if it is not tracked. */
void mpib_tracker_drop(struct mpib_tracker *t, struct mpib_stripe *c,
		       uint64_t now);
/* The oldest stripe without an answer, NULL if all were answered. */
static inline const struct mpib_stripe *
mpib_tracker_oldest(const struct mpib_tracker *t)
{
	return TAILQ_FIRST(&t->unacked);
}
/* Nanoseconds in which something was unacked, up to now. */
uint64_t mpib_tracker_busy(const struct mpib_tracker *t, uint64_t now);

#endif
