/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The adaptive split of one lane: whole messages join the shortest queue, and a
 * message is cut only if it ends sooner that way. docs/split.md explains the
 * rule, its source and why it converges.
 *
 * A whole message goes to the rail that will end it first: the rail with the
 * fewest bytes relative to its weight, counting the bytes in flight and the
 * message. A message is cut only if a rail is about to become idle, nothing
 * else waits to be posted, and earlier messages of its size ended sooner when
 * cut. A cut lets both parts end together.
 *
 * The weights follow the measured speeds of the rails. A round measures, per
 * rail, the bytes of the stripes that ended and the time that the stripes took.
 * From these measurements the round computes the weights with which both rails
 * would have ended together. If the computed weights differ in the same
 * direction for several rounds, the current weights move towards them. If the
 * direction changes from round to round, the differences are noise. With more
 * noise, the weights move closer to the middle. So a rail with little traffic
 * does not count as slow, and equal rails remain equal if CPU cores are the
 * limit.
 *
 * A small message goes to the rail with the lower latency for small messages,
 * unless much is in flight on that rail.
 *
 * Shard thread. The code uses integers only, and the caller passes the time. An
 * attempt on a rail is counted when a send op is posted. A query of the split
 * does not count, because a send op that finds no room queries its split again
 * later.
 */
#ifndef MPIB_ENGINE_SPLIT_ADAPT_H
#define MPIB_ENGINE_SPLIT_ADAPT_H

#include <assert.h>
#include <mpib/abi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/*
 * The choice whether to divide a part, by a measured crossover size. The choice
 * has two uses. A rail's part of a send op may be divided over several QPs
 * (spread.h; one choice per lane and rail). A whole send op may be divided over
 * both rails (adapt.h; one choice per lane). Below, "part" stands for both, and
 * "spread" means divided.
 *
 * A part can be sent in two ways: whole or spread. The cost of a way is a time
 * divided by bytes. The time runs from the part's post to its acknowledgement.
 * The bytes are all that were acknowledged in that time, including those of the
 * part. On an idle rail the cost is the part's latency per byte. On a busy rail
 * the cost is the inverse of the rail's rate. All sizes between two powers of
 * two form a class. Each class has a smoothed cost for each way. The first
 * parts of a class use both ways in turn. Later a part occasionally uses the
 * more expensive way, so that both costs remain known. The crossover is the
 * smallest class from which on spreading is cheaper in every class with known
 * costs. If there is no crossover, only the first parts and occasional later
 * parts are spread.
 *
 * Shard thread. The code uses integers only, and the caller passes times.
 */

#define MPIB_CHOICE_CLASSES 32
/* number of first parts that use both ways in turn */
#define MPIB_CHOICE_FIRST 8u
/* At most one of this many parts tries the more expensive way. If that way
 * costs much more, fewer parts try it. */
#define MPIB_CHOICE_TRY 32u

struct mpib_choice {
	uint32_t above; /* parts longer than this are spread */
	uint32_t margin;
	struct mpib_choice_class {
		/* of whole and of spread parts, in ns per MiB; 0: not known */
		uint64_t cost[2];
		uint32_t parts; /* number of parts posted, in both ways */
		/* Value of `parts` when the more expensive way was last
		 * used. */
		uint32_t tried;
		bool spread; /* spreading is cheaper */
	} class[MPIB_CHOICE_CLASSES];
};

/* Initialise. A way counts as cheaper only if it saves more than 1/margin,
 * because measured costs are never exactly equal. */
void mpib_choice_init(struct mpib_choice *c, uint32_t margin);
/* Return whether to spread the next part of this size. Repeated calls return
 * the same result until mpib_choice_posted(). */
bool mpib_choice_spread(const struct mpib_choice *c, uint32_t bytes);
/* Record that a part of this size was posted. mpib_choice_note() must follow
 * unless the part is lost. */
void mpib_choice_posted(struct mpib_choice *c, uint32_t bytes);
/* Record that a part was acknowledged `ns` after its post. In that time,
 * `others` bytes of other parts were also acknowledged. */
void mpib_choice_note(struct mpib_choice *c, uint32_t bytes, bool spread,
		      uint64_t ns, uint64_t others);

/*
 * The unacknowledged stripes of one rail of one lane, oldest first, with the
 * time of their post. Round trips, rates and stalls are computed from this
 * list. Shard thread. Every call is O(1). The time is an argument, so that
 * tests can set it, in nanoseconds of CLOCK_MONOTONIC.
 */

/* Stripes up to this size measure a rail's latency, longer ones its rate. */
#define MPIB_TRACK_SMALL 16384u

/* One rail's part of a send op, in one chain of WRs. It must not move in memory
 * between its post and its ack or drop. */
struct mpib_stripe {
	TAILQ_ENTRY(mpib_stripe) link;
	uint64_t posted; /* 0: not in a tracker */
	uint32_t bytes;
	bool alone; /* nothing else was in flight when it was posted */
	/* the rail's acknowledged bytes when the stripe was posted */
	uint64_t before;
};

TAILQ_HEAD(mpib_stripe_list, mpib_stripe);

/*
 * Sums over all lanes of a rail, shared by these lanes.
 *
 * `bytes` / `ns` is the rail's speed: the acknowledged bytes of stripes longer
 * than MPIB_TRACK_SMALL, and the time that they took. A stripe's time starts at
 * its post or at the end of the previous stripe, whichever is later. For
 * example, two stripes are posted at time 0 and both end at time 10. The first
 * adds 10 to `ns`, the second adds 0. So `ns` is the time in which the rail was
 * busy, in whatever order the rail serves its QPs.
 */
struct mpib_track_sum {
	uint64_t inflight, acked; /* bytes */
	uint64_t bytes, ns;
	/* end of the last stripe: the next stripe's time starts here */
	uint64_t from;
	unsigned large; /* number of long stripes in flight */
};

/* A round, with the values of the sum's `bytes` and `ns` at its start. */
struct mpib_track_ends {
	uint64_t since;
	uint64_t bytes, ns;
	/* Number of long stripes that were posted and acknowledged in the
	 * round. */
	unsigned n;
};

struct mpib_tracker {
	struct mpib_stripe_list unacked;
	uint64_t inflight; /* bytes */
	struct mpib_track_sum *sum;
	/* Totals since the lane was created. */
	uint64_t acked, acked_bytes;
	/* sum of past busy periods, see mpib_tracker_busy() */
	uint64_t busy_ns;
	uint64_t busy_since; /* start of the current busy period */
	uint64_t last_ack;
	/* Round trips; 0: none measured. */
	uint64_t srtt; /* smoothed as in RFC 6298: 1/8 */
	/* of small stripes on an idle rail, smoothed: a sample below the mean
	 * has weight 1/4, a sample above it 1/16 */
	uint64_t latency;
	uint64_t latency_at;
	/* the current round; adapt.c starts rounds */
	struct mpib_track_ends ends;
};

/* Initialise. The tracker must not move in memory after this. */
void mpib_tracker_init(struct mpib_tracker *t, struct mpib_track_sum *sum);
/* Return the oldest unacknowledged stripe; NULL: none. */
static inline const struct mpib_stripe *
mpib_tracker_oldest(const struct mpib_tracker *t)
{
	return TAILQ_FIRST(&t->unacked);
}
/* Return the total time up to now, in ns, during which at least one stripe was
 * unacknowledged. */
uint64_t mpib_tracker_busy(const struct mpib_tracker *t, uint64_t now);

/* Add a stripe that was posted. `now` must not be 0. */
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

/* Update the smoothed latency. A slow answer counts less than a fast one,
 * because this process may have been suspended when the answer arrived. */
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
	/* Measure from the end of the previous stripe, not from the oldest
	 * post. So a stripe that stays in flight, for example because its peer
	 * has stopped, does not affect the times of later stripes. */
	t->sum->ns +=
		now - (c->posted > t->sum->from ? c->posted : t->sum->from);
	t->sum->bytes += c->bytes;
	if (c->posted >= t->ends.since)
		t->ends.n++;
}

/* Remove a stripe that was acknowledged, and count it in all statistics. */
__attribute__((always_inline)) static inline void
mpib_tracker_ack(struct mpib_tracker *t, struct mpib_stripe *c, uint64_t now)
{
	/* The ack may arrive in the turn that posted the stripe. The time of
	 * the stripe is then 1 ns, because 0 means no sample. */
	uint64_t rtt = now > c->posted ? now - c->posted : 1;

	t->acked++;
	t->acked_bytes += c->bytes;
	t->sum->acked += c->bytes;
	t->srtt = t->srtt ? (7 * t->srtt + rtt) / 8 : rtt;
	if (c->bytes > MPIB_TRACK_SMALL) {
		tracker_end(t, c, now);
	} else if (c->alone) {
		tracker_latency(t, rtt);
		t->latency_at = now;
	}
	t->last_ack = now;
	tracker_take_out(t, c, now);
}

/* Remove a stripe that failed or is no longer needed. Count it in no
 * statistics. No effect if the stripe is not in a tracker. */
static inline void mpib_tracker_drop(struct mpib_tracker *t,
				     struct mpib_stripe *c, uint64_t now)
{
	if (c->posted)
		tracker_take_out(t, c, now);
}

#define MPIB_ADAPT_SMALL MPIB_TRACK_SMALL
#define MPIB_ADAPT_ONE 65536u /* sum of both rails' weights */
#define MPIB_ADAPT_ALL 1024u /* unit of shares: this share is all bytes */
#define MPIB_ADAPT_ROUND 8000000u /* ns: minimum length of a round */
/* ns: a rail that was not used for this long gets a trial of about
 * MPIB_ADAPT_TRY bytes. */
#define MPIB_ADAPT_STALE 100000000u
#define MPIB_ADAPT_TRY (64u << 10)
/* Bytes in flight on a rail above which small messages may use another rail. */
#define MPIB_ADAPT_BUSY (UINT64_C(4) * MPIB_ADAPT_SMALL)
#define MPIB_ADAPT_LEAD (8ll << 20)
/* Parts of MPIB_ADAPT_ONE. End times that differ by less than MPIB_ADAPT_NEAR
 * count as equal. While both rails are idle, MPIB_ADAPT_IDLE is added to this
 * limit. */
#define MPIB_ADAPT_NEAR (MPIB_ADAPT_ONE / 16)
#define MPIB_ADAPT_IDLE (MPIB_ADAPT_ONE / 2 - MPIB_ADAPT_NEAR)

enum mpib_adapt_answer {
	MPIB_ADAPT_NONE,
	MPIB_ADAPT_BY_LATENCY,
	MPIB_ADAPT_BY_QUEUE,
	/* by the measured costs of cutting and of not cutting */
	MPIB_ADAPT_BY_CUT,
};

struct mpib_adapt {
	uint32_t weight; /* SUP's weight, in parts of MPIB_ADAPT_ONE */
	/* Error of the weight in a round, in parts of MPIB_ADAPT_ONE: smoothed
	 * mean (`off`), and smoothed mean of the absolute values (`noise`). */
	int32_t off, noise;
	/* For whole send ops. `sure` is SUP's weight, or one half if the noise
	 * exceeds the difference between the rails. `unsure` is in parts of
	 * MPIB_ADAPT_ONE: end times that differ by less count as equal. */
	uint32_t sure, unsure;
	uint64_t round; /* start of the current round */
	uint32_t share; /* published weight, in parts of 1024 */
	uint64_t since; /* ns: when `share` last changed */
	int64_t lead; /* bytes that SUP carried in excess of its weight */
	/* The choice whether to cut send ops. In this struct mpib_choice,
	 * "spread" means "cut between the rails". */
	struct mpib_choice cut;
	/* the weight under which the samples in `cut` were made */
	uint32_t cut_weight;
	/* Sum of the bytes acknowledged on both rails, at the last decision
	 * whether to cut a send op. */
	uint64_t before;
	/* enum mpib_adapt_answer of the last query; NONE after its post */
	uint8_t answer;
	uint8_t fast; /* the current rail for small messages */
	uint32_t run; /* successive small messages on that rail */
};

/* Kinds of a send op that is about to be posted. */
enum mpib_adapt_op {
	MPIB_ADAPT_SHORT, /* its message has at most MPIB_ADAPT_SMALL bytes */
	MPIB_ADAPT_ALONE, /* no other send op waits to be posted */
	MPIB_ADAPT_FOLLOWED,
};

/* A send op that was posted and has ended. */
struct mpib_adapt_end {
	uint32_t bytes;
	bool cut;
	uint64_t ns; /* time from its post to its end */
	uint64_t before; /* result of mpib_adapt_posted() */
};

/* Initialise. `track` is as for mpib_adapt_split(). */
void mpib_adapt_init(struct mpib_adapt *a, struct mpib_tracker *track,
		     uint64_t now);

/* Set the weight, and compute `sure` and `unsure` from it and the current
 * noise. */
void mpib_adapt_weigh(struct mpib_adapt *a, uint32_t weight);
/* Return how many of a send op's `len` bytes SUP carries. `track` has one entry
 * per rail. If the current round is complete, end it. `planned` is NULL, or the
 * bytes that each rail's chain already carries. */
uint32_t mpib_adapt_split(struct mpib_adapt *a, struct mpib_tracker *track,
			  enum mpib_adapt_op op, uint32_t len,
			  const uint32_t *planned, uint64_t now);

/* Record that a send op was posted, with these bytes on each rail. A query
 * since the last post must have been for this send op. If the result is at
 * least 0, pass it to mpib_adapt_ended() when the send op ends. */
int64_t mpib_adapt_posted(struct mpib_adapt *a, uint32_t sout, uint32_t sup);
/* Record that all stripes of a send op are acknowledged. Do not call this for a
 * replayed send op. */
void mpib_adapt_ended(struct mpib_adapt *a, const struct mpib_tracker *track,
		      const struct mpib_adapt_end *end);

#endif
