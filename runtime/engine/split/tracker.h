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

#include <assert.h>
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
	uint64_t before; /* mpib_tracker_gone() when it was posted */
};

TAILQ_HEAD(mpib_stripe_list, mpib_stripe);

/*
 * What all lanes have on a rail, for they share it.
 *
 * bytes and ns tell how fast it is: of stripes longer than MPIB_TRACK_SMALL those
 * that were acknowledged, and the time that they took, from each end to the next
 * one while any was in flight, but no longer than it was itself. That is so whatever the order in which a rail
 * serves its QPs: two stripes that go side by side end together, and took the
 * time of both.
 */
struct mpib_track_sum {
	uint64_t inflight, acked; /* bytes */
	uint64_t bytes, ns;
	uint64_t from; /* since when the next end takes its time */
	unsigned large; /* such stripes in flight */
};

/* A round: sum's bytes and ns at its begin. */
struct mpib_track_ends {
	uint64_t since;
	uint64_t bytes, ns;
	unsigned
		n; /* stripes posted in it and acknowledged, longer ones only */
};

struct mpib_tracker {
	struct mpib_stripe_list unacked;
	uint64_t inflight; /* bytes */
	struct mpib_track_sum *sum; /* own, unless told otherwise */
	struct mpib_track_sum own;
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

/* t stays at its address. */
void mpib_tracker_init(struct mpib_tracker *t);
/* Begin a round. */
void mpib_tracker_round(struct mpib_tracker *t, uint64_t now);
/* The rail's bytes in flight. */
static inline uint64_t mpib_tracker_queue(const struct mpib_tracker *t)
{
	return t->sum->inflight;
}
/* The bytes that the rail has carried so far. */
static inline uint64_t mpib_tracker_gone(const struct mpib_tracker *t)
{
	return t->sum->acked;
}
/* The oldest stripe without an ack; NULL if all are acknowledged. */
static inline const struct mpib_stripe *
mpib_tracker_oldest(const struct mpib_tracker *t)
{
	return TAILQ_FIRST(&t->unacked);
}
/* Total ns, up to now, in which at least one stripe was unacknowledged. */
uint64_t mpib_tracker_busy(const struct mpib_tracker *t, uint64_t now);

/* now is not 0. */
static inline void mpib_tracker_post(struct mpib_tracker *t,
				     struct mpib_stripe *c, uint32_t bytes,
				     uint64_t now)
{
	struct mpib_track_sum *sum = t->sum;

	c->posted = now;
	c->bytes = bytes;
	c->alone = TAILQ_EMPTY(&t->unacked);
	if (c->alone)
		t->busy_since = now;
	c->before = sum->acked;
	t->inflight += bytes;
	sum->inflight += bytes;
	if (bytes > MPIB_TRACK_SMALL) {
		if (!sum->large)
			sum->from = now;
		sum->large++;
	}
	TAILQ_INSERT_TAIL(&t->unacked, c, link);
}

static inline void tracker_take_out(struct mpib_tracker *t,
				    struct mpib_stripe *c, uint64_t now)
{
	struct mpib_track_sum *sum = t->sum;

	TAILQ_REMOVE(&t->unacked, c, link);
	assert(c->bytes <= t->inflight && c->bytes <= sum->inflight);
	t->inflight -= c->bytes;
	sum->inflight -= c->bytes;
	if (c->bytes > MPIB_TRACK_SMALL) {
		sum->large--;
		sum->from = now;
	}
	if (TAILQ_EMPTY(&t->unacked))
		t->busy_ns += now - t->busy_since;
	c->posted = 0;
}

static inline void tracker_sample(struct mpib_tracker *t, uint64_t rtt)
{
	uint64_t off = rtt > t->srtt ? rtt - t->srtt : t->srtt - rtt;

	if (!t->srtt) {
		t->srtt = rtt;
		t->rttvar = rtt / 2;
		return;
	}
	t->rttvar = (3 * t->rttvar + off) / 4;
	t->srtt = (7 * t->srtt + rtt) / 8;
}

/* An answer that came late says less than one that came soon: the process may
 * not have run meanwhile. */
static inline void tracker_latency(struct mpib_tracker *t, uint64_t rtt)
{
	uint64_t most = 4 * t->latency;

	if (!t->latency)
		t->latency = rtt;
	else if (rtt <= t->latency)
		t->latency = (3 * t->latency + rtt) / 4;
	else
		t->latency +=
			((rtt < most ? rtt : most) - t->latency + 15) / 16;
}

static inline void tracker_end(struct mpib_tracker *t,
			       const struct mpib_stripe *c, uint64_t now)
{
	/* One that stays in flight, as on a lane whose peer stands still, takes
	 * no time of those that come after it. */
	t->sum->ns +=
		now - (c->posted > t->sum->from ? c->posted : t->sum->from);
	t->sum->bytes += c->bytes;
	if (c->posted >= t->ends.since)
		t->ends.n++;
}

/* The stripe was acknowledged: it counts for all statistics. */
__attribute__((always_inline)) static inline void
mpib_tracker_ack(struct mpib_tracker *t, struct mpib_stripe *c, uint64_t now)
{
	/* An ack in the same turn still took some time; 0 means no sample. */
	uint64_t rtt = now > c->posted ? now - c->posted : 1;

	t->acked++;
	t->acked_bytes += c->bytes;
	t->sum->acked += c->bytes;
	tracker_sample(t, rtt);
	if (c->bytes > MPIB_TRACK_SMALL) {
		tracker_end(t, c, now);
	} else if (c->alone) {
		tracker_latency(t, rtt);
		t->latency_at = now;
	}
	t->last_ack = now;
	tracker_take_out(t, c, now);
}

/* The stripe failed or nobody waits for it: it counts for no statistics. Does
 * nothing if the stripe is not in a tracker. */
static inline void mpib_tracker_drop(struct mpib_tracker *t,
				     struct mpib_stripe *c, uint64_t now)
{
	if (c->posted)
		tracker_take_out(t, c, now);
}

#endif
