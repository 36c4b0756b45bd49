/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The adaptive split of one lane: whole messages join the shortest queue, and a
 * message is cut only if that ends it sooner. docs/split.md explains the law,
 * its source and why it settles.
 *
 * A message goes whole to the rail that will end it first: the one with the
 * fewest bytes, in flight and its own, relative to its weight. It is cut only
 * while a rail is about to run dry, nothing else waits to be posted, and
 * messages of its size ended sooner when cut. Then both parts should end
 * together.
 *
 * The weights follow the difference of the two rails' ends. A round measures,
 * per rail, the bytes that ended and the time from end to end. If the
 * differences have one sign, the next round's weights move to those under which
 * both rails would have ended together. The rest is noise: the more noise, the
 * more the weights return to the middle. So a rail that gets little traffic
 * does not count as slow, and equal rails stay equal if cores are the limit.
 *
 * A small message goes to the rail that answers small messages sooner, unless
 * much is in flight there.
 *
 * Shard thread, integers only; the caller passes the time. A query does not
 * count as a try: a send op that finds no room asks again.
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
 * Whether to divide something above a measured crossover size: a rail's part of
 * a send op over several QPs instead of one (spread.h, per lane and rail), or a
 * send op over both rails instead of one (adapt.h, per lane). "Spread" stands
 * for either here.
 *
 * The cost of each way is the time from post to acknowledgement, divided by the
 * bytes that were acknowledged in that time, including the part's own. On an
 * idle rail that is the part's latency, on a busy rail the inverse of the
 * rail's rate. All sizes between two powers of two form a class with a smoothed
 * cost for each way. The first parts of a class use both ways in turn. Later a
 * part occasionally uses the more expensive way, so that both costs stay known.
 * The crossover is the smallest class from which on every class with known
 * costs is cheaper when spread. Until then only those first parts are spread.
 *
 * Shard thread, integers only; the caller passes times.
 */

#define MPIB_CHOICE_CLASSES 32
#define MPIB_CHOICE_FIRST 8u /* parts that use both ways in turn */
/* At most one part in this many uses the more expensive way, fewer if it costs
 * much more. */
#define MPIB_CHOICE_TRY 32u

struct mpib_choice {
	uint32_t above; /* parts longer than this are spread */
	uint32_t margin;
	struct mpib_choice_class {
		uint64_t cost[2]; /* by spread: ns per MiB, 0: not known */
		uint32_t parts; /* parts posted in either way */
		/* Number of parts when one last used the more expensive way. */
		uint32_t tried;
		bool spread; /* spreading is cheaper */
	} class[MPIB_CHOICE_CLASSES];
};

/* A way counts as cheaper if it is so by more than 1/margin: measured costs are
 * never exactly equal. */
void mpib_choice_init(struct mpib_choice *c, uint32_t margin);
/* Return whether to spread the next part of this size. Repeated calls return
 * the same result until mpib_choice_posted(). */
bool mpib_choice_spread(const struct mpib_choice *c, uint32_t bytes);
/* A part of this size was posted. mpib_choice_note() follows unless the part
 * is lost. */
void mpib_choice_posted(struct mpib_choice *c, uint32_t bytes);
/* A part was acknowledged ns after its post. Meanwhile this many bytes of other
 * parts were acknowledged. */
void mpib_choice_note(struct mpib_choice *c, uint32_t bytes, bool spread,
		      uint64_t ns, uint64_t others);

/*
 * The stripes that were posted to one rail of one lane and are not acknowledged
 * yet, oldest first, with the time of their post. Round trips, rates and stalls
 * are computed from this list. Shard thread; every call is O(1) and takes the
 * time as an argument, so that tests can set it. Times are nanoseconds of
 * CLOCK_MONOTONIC.
 */

/* Stripes up to this size measure a rail's latency, longer ones its rate. */
#define MPIB_TRACK_SMALL 16384u

/* One rail's part of a send op, in one chain of WRs. Must not move from post to
 * ack or drop. */
struct mpib_stripe {
	TAILQ_ENTRY(mpib_stripe) link;
	uint64_t posted; /* 0: not in a tracker */
	uint32_t bytes;
	bool alone; /* nothing was in flight when it was posted */
	uint64_t before; /* the rail's acked bytes when it was posted */
};

TAILQ_HEAD(mpib_stripe_list, mpib_stripe);

/*
 * The sum over all lanes on a rail, which they share.
 *
 * bytes and ns give its speed: the acknowledged bytes of stripes longer than
 * MPIB_TRACK_SMALL, and the time that they took. That is the time from each end
 * to the next end while any stripe was in flight, but at most the stripe's own
 * time in flight. This holds for any order in which a rail serves its QPs: two
 * parallel stripes end together and took the time of both.
 */
struct mpib_track_sum {
	uint64_t inflight, acked; /* bytes */
	uint64_t bytes, ns;
	uint64_t from; /* the next stripe's time counts from here */
	unsigned large; /* such stripes in flight */
};

/* A round: sum's bytes and ns at its start. */
struct mpib_track_ends {
	uint64_t since;
	uint64_t bytes, ns;
	/* Longer acknowledged stripes that were posted in the round. */
	unsigned n;
};

struct mpib_tracker {
	struct mpib_stripe_list unacked;
	uint64_t inflight; /* bytes */
	struct mpib_track_sum *sum;
	/* Totals since the lane came up. */
	uint64_t acked, acked_bytes;
	/* sum of past busy periods; see mpib_tracker_busy() */
	uint64_t busy_ns;
	uint64_t busy_since; /* begin of the current busy period */
	uint64_t last_ack;
	/* Round trips; 0: none measured. */
	uint64_t srtt; /* smoothed as in RFC 6298: 1/8 */
	uint64_t latency; /* small stripes, idle rail; smoothed by 1/4 down, by
			     1/16 up */
	uint64_t latency_at;
	struct mpib_track_ends ends; /* its user starts the rounds */
};

/* t must not move. */
void mpib_tracker_init(struct mpib_tracker *t, struct mpib_track_sum *sum);
/* Return the oldest stripe without an ack; NULL if all are acknowledged. */
static inline const struct mpib_stripe *
mpib_tracker_oldest(const struct mpib_tracker *t)
{
	return TAILQ_FIRST(&t->unacked);
}
/* Return the total ns, up to now, in which at least one stripe was
 * unacknowledged. */
uint64_t mpib_tracker_busy(const struct mpib_tracker *t, uint64_t now);

/* now must not be 0. */
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

/* A late answer counts less than an early one: the process may not have run
 * meanwhile. */
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
	/* A stripe that stays in flight, as on a lane whose peer stands still,
	 * takes no time from later stripes. */
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

/* Remove a stripe that failed or is no longer needed: it counts for no
 * statistics. No effect if the stripe is not in a tracker. */
static inline void mpib_tracker_drop(struct mpib_tracker *t,
				     struct mpib_stripe *c, uint64_t now)
{
	if (c->posted)
		tracker_take_out(t, c, now);
}

#define MPIB_ADAPT_SMALL MPIB_TRACK_SMALL
#define MPIB_ADAPT_ONE 65536u /* both rails' weights together */
#define MPIB_ADAPT_ALL 1024u /* a share of all bytes */
#define MPIB_ADAPT_ROUND                                                       \
	8000000u /* ns: shortest interval over which ends are compared */
/* ns: a rail without a post for this long gets a trial of at most
 * MPIB_ADAPT_TRY bytes. */
#define MPIB_ADAPT_STALE 100000000u
#define MPIB_ADAPT_TRY (64u << 10)
/* Bytes: a queue of this length is long for small messages. */
#define MPIB_ADAPT_BUSY (UINT64_C(4) * MPIB_ADAPT_SMALL)
#define MPIB_ADAPT_LEAD (8ll << 20)
/* Parts of MPIB_ADAPT_ONE: ends that differ by less count as equal; and the
 * additional tolerance while both rails are idle. */
#define MPIB_ADAPT_NEAR (MPIB_ADAPT_ONE / 16)
#define MPIB_ADAPT_IDLE (MPIB_ADAPT_ONE / 2 - MPIB_ADAPT_NEAR)

enum mpib_adapt_answer {
	MPIB_ADAPT_NONE,
	MPIB_ADAPT_BY_LATENCY,
	MPIB_ADAPT_BY_QUEUE,
	MPIB_ADAPT_BY_CUT, /* by the decision about cuts, cut or whole */
};

struct mpib_adapt {
	uint32_t weight; /* SUP's, of MPIB_ADAPT_ONE: mpib_adapt_weigh() */
	int32_t off, noise; /* differences of rounds: mean, and mean size */
	/* For whole send ops: SUP's weight, which is half if the rails differ
	 * by less than the noise; and the part (of MPIB_ADAPT_ONE) by which two
	 * equal ends may differ. */
	uint32_t sure, unsure;
	uint64_t round; /* start of the current round */
	uint32_t share; /* published weight, in parts of 1024 */
	uint64_t since; /* when share last changed, ns */
	int64_t lead; /* bytes that SUP got in excess of its weight */
	struct mpib_choice cut; /* cut (spread) or whole, by size */
	uint32_t cut_weight; /* the weight for which cut holds */
	/* Bytes that both rails had carried at the last decision. */
	uint64_t before;
	uint8_t answer; /* enum mpib_adapt_answer: the last one, until posted */
	uint8_t fast; /* the rail for small messages */
	uint32_t run; /* small messages in a row on that rail */
};

/* A send op that is about to be posted. */
enum mpib_adapt_op {
	MPIB_ADAPT_SHORT, /* its message has at most MPIB_ADAPT_SMALL bytes */
	MPIB_ADAPT_ALONE, /* no other send op waits to be posted */
	MPIB_ADAPT_FOLLOWED,
};

/* A send op that was posted and has ended. */
struct mpib_adapt_end {
	uint32_t bytes;
	bool cut;
	uint64_t ns; /* from its post */
	uint64_t before; /* what mpib_adapt_posted() returned */
};

/* track: see mpib_adapt_split(). */
void mpib_adapt_init(struct mpib_adapt *a, struct mpib_tracker *track,
		     uint64_t now);

/* Set the weight, with the current noise. */
void mpib_adapt_weigh(struct mpib_adapt *a, uint32_t weight);
/* Return SUP's bytes of a send op of len bytes. track has one entry per rail.
 * This ends a complete round. planned: bytes of the same chains by rail, or
 * NULL. */
uint32_t mpib_adapt_split(struct mpib_adapt *a, struct mpib_tracker *track,
			  enum mpib_adapt_op op, uint32_t len,
			  const uint32_t *planned, uint64_t now);

/* A send op was posted, with these bytes by rail: the last one asked about
 * since the last post, if any. If the result is not below 0, pass it to
 * mpib_adapt_ended() when the send op ends. */
int64_t mpib_adapt_posted(struct mpib_adapt *a, uint32_t sout, uint32_t sup);
/* All stripes of the send op are acknowledged. Not for a send op that was
 * replayed. */
void mpib_adapt_ended(struct mpib_adapt *a, const struct mpib_tracker *track,
		      const struct mpib_adapt_end *end);

#endif
