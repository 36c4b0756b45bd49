/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The adaptive split of one lane: join the shortest queue by whole messages,
 * cut a message only where that ends it sooner. docs/split.md has the law, its
 * source and why it settles.
 *
 * A message goes whole to the rail that will end it first: the one whose bytes
 * in flight, with the message's own, are the fewest for its weight. It is cut
 * only while a rail is about to run dry, nothing else waits to be posted, and
 * messages of its size were seen to end sooner when cut; then both parts are to
 * end together.
 *
 * The weights follow the difference of the two rails' ends. A round collects,
 * per rail, the bytes that ended and the time from end to end; the weights under
 * which both rails would have ended alike are where the next round's weights go, as
 * far as the differences have one sign.
 * What they lack of that is noise, and the more noise, the more the weights
 * return to the middle. So a rail that gets little is not taken for a slow one,
 * and equal rails stay equal where cores are the limit.
 *
 * A small message goes to the rail that answers small messages sooner, unless
 * much is in flight there.
 *
 * Shard thread, integers only; the caller passes the time. Asking changes
 * nothing that counts tries: a send op that finds no room asks again.
 */
#ifndef MPIB_ENGINE_ADAPT_H
#define MPIB_ENGINE_ADAPT_H

#include <mpib/abi.h>

#include "engine/split/choice.h"
#include "engine/split/tracker.h"

#define MPIB_ADAPT_SMALL MPIB_TRACK_SMALL
#define MPIB_ADAPT_ONE 65536u /* both rails' weights together */
#define MPIB_ADAPT_ALL 1024u /* of a share */
#define MPIB_ADAPT_ROUND                                                       \
	8000000u /* ns: shortest over which ends are compared */
/* ns: a rail without a post for this long is tried, with so many bytes at most. */
#define MPIB_ADAPT_STALE 100000000u
#define MPIB_ADAPT_TRY (64u << 10)
/* Bytes: a queue, for small messages. */
#define MPIB_ADAPT_BUSY (UINT64_C(4) * MPIB_ADAPT_SMALL)
#define MPIB_ADAPT_LEAD (8ll << 20)
/* Of MPIB_ADAPT_ONE: ends that differ by less are about as good, and by how much
 * more while both rails are idle. */
#define MPIB_ADAPT_NEAR (MPIB_ADAPT_ONE / 16)
#define MPIB_ADAPT_IDLE (MPIB_ADAPT_ONE / 2 - MPIB_ADAPT_NEAR)

enum mpib_adapt_answer {
	MPIB_ADAPT_NONE,
	MPIB_ADAPT_BY_LATENCY,
	MPIB_ADAPT_BY_QUEUE,
	MPIB_ADAPT_BY_CUT, /* as cut says, be it whole or not */
};

struct mpib_adapt {
	uint32_t weight; /* SUP's, of MPIB_ADAPT_ONE: mpib_adapt_weigh() */
	int32_t off, noise; /* differences of rounds: their mean, mean size */
	/* Of both, for whole send ops: SUP's weight, half where rails differ by less
	 * than the noise, and by what part (of MPIB_ADAPT_ONE) two ends may differ
	 * that are about as good. */
	uint32_t sure, unsure;
	uint64_t round; /* when the present round began */
	uint32_t share; /* weight as told, in parts of 1024 */
	uint64_t since; /* when share last changed, ns */
	int64_t lead; /* bytes that SUP got beyond its weight */
	struct mpib_choice cut; /* cut (spread) or whole, by size */
	uint32_t cut_weight; /* weight for which cut holds */
	uint64_t
		before; /* the last answer: bytes that both rails had carried */
	uint8_t answer; /* enum mpib_adapt_answer: the last, not posted yet */
	uint8_t fast; /* the rail for small messages */
	uint32_t run; /* small messages in a row that went there */
};

/* A send op that is about to be posted. */
struct mpib_adapt_op {
	uint32_t total; /* bytes of the message it belongs to */
	uint32_t len; /* its own bytes, of which the split is asked */
	const uint32_t *planned; /* bytes of the same chains, by rail */
	bool more; /* other send ops wait to be posted */
	uint64_t now;
};

/* One that was, and ended. */
struct mpib_adapt_end {
	uint32_t bytes;
	bool cut;
	uint64_t ns; /* from its post */
	uint64_t before; /* what mpib_adapt_posted() returned */
};

/* track as for mpib_adapt_share(). */
void mpib_adapt_init(struct mpib_adapt *a, struct mpib_tracker *track,
		     uint64_t now);

/* The weight is this, with the noise that there is. */
void mpib_adapt_weigh(struct mpib_adapt *a, uint32_t weight);
/* adapt.c, for what is seldom. A send op of a small message: as
 * mpib_adapt_share(). */
uint32_t mpib_adapt_small(struct mpib_adapt *a,
			  const struct mpib_tracker *track, uint64_t now);
/* Any send op: as mpib_adapt_share(). */
uint32_t mpib_adapt_any(struct mpib_adapt *a, struct mpib_tracker *track,
			const struct mpib_adapt_op *op);
/* Rail r, which had nothing for long, gets a little of a send op of len bytes: as
 * mpib_adapt_share(). */
uint32_t mpib_adapt_try(struct mpib_adapt *a, uint32_t len, unsigned r);

/* The rail of a whole send op of len bytes, where queue[r] are in flight on rail r:
 * the one that ends it first. Where the two are about as good, that is the one that
 * has had less than its weight. */
static inline unsigned mpib_adapt_whole(const struct mpib_adapt *a,
					uint64_t in_sout, uint64_t in_sup,
					uint32_t len)
{
	uint64_t sup = (in_sup + len) * (MPIB_ADAPT_ONE - a->sure);
	uint64_t sout = (in_sout + len) * a->sure;
	bool idle = !(in_sout | in_sup);
	uint64_t unsure = a->unsure + (idle ? MPIB_ADAPT_IDLE : 0);

	if (sup < sout) {
		if (sout - sup > sup * unsure / MPIB_ADAPT_ONE)
			return MPIB_RAIL_SUP;
	} else if (sup - sout > sout * unsure / MPIB_ADAPT_ONE) {
		return MPIB_RAIL_SOUT;
	}
	return a->lead < 0 ? MPIB_RAIL_SUP : MPIB_RAIL_SOUT;
}

/* Nothing is in flight on rail r, and nothing was posted there for long while
 * the other rail was used. */
static inline bool mpib_adapt_stale(const struct mpib_tracker *track,
				    unsigned r, uint64_t now)
{
	const struct mpib_tracker *other = &track[!r];
	uint64_t used;

	if (mpib_tracker_oldest(&track[r]))
		return false;
	used = mpib_tracker_oldest(other) ? now : other->busy_since;
	return used >= track[r].busy_since + MPIB_ADAPT_STALE;
}

/* The round has lasted long enough, and both rails have ended something in it. */
static inline bool mpib_adapt_is_round(const struct mpib_adapt *a,
				       const struct mpib_tracker *track,
				       uint64_t now)
{
	return now - a->round >= MPIB_ADAPT_ROUND &&
	       track[MPIB_RAIL_SOUT].ends.n && track[MPIB_RAIL_SUP].ends.n;
}

/* The round is complete: the weight follows it. */
void mpib_adapt_end_round(struct mpib_adapt *a, struct mpib_tracker *track,
			  uint64_t now);

/* A rail has so little in flight that it might run dry before a whole send op of len
 * bytes ends on the other: cutting that may help. */
static inline bool mpib_adapt_runs_dry(uint64_t in_sout, uint64_t in_sup,
				       uint32_t len)
{
	return 2 * in_sout < len || 2 * in_sup < len;
}

/* SUP's parts per 1024 of the send op. track has one entry per rail; a round
 * that is complete ends here. */
__attribute__((always_inline)) static inline uint32_t
mpib_adapt_share(struct mpib_adapt *a, struct mpib_tracker *track,
		 const struct mpib_adapt_op *op)
{
	unsigned r;

	if (op->total <= MPIB_ADAPT_SMALL &&
	    mpib_tracker_queue(&track[a->fast]) <= MPIB_ADAPT_BUSY)
		return mpib_adapt_small(a, track, op->now);
	if (!op->more || op->planned ||
	    mpib_adapt_is_round(a, track, op->now)) {
		/* By a copy: what has its address elsewhere is no longer kept
		 * in registers. */
		const struct mpib_adapt_op copy = *op;

		return mpib_adapt_any(a, track, &copy);
	}
	a->answer = MPIB_ADAPT_BY_QUEUE;
	r = mpib_adapt_whole(a, mpib_tracker_queue(&track[MPIB_RAIL_SOUT]),
			     mpib_tracker_queue(&track[MPIB_RAIL_SUP]),
			     op->len);
	if (mpib_adapt_stale(track, !r, op->now))
		return mpib_adapt_try(a, op->len, !r);
	return r == MPIB_RAIL_SUP ? MPIB_ADAPT_ALL : 0;
}

/* SUP got sup of len bytes. */
static inline void mpib_adapt_lead(struct mpib_adapt *a, uint32_t len,
				   uint32_t sup)
{
	int64_t lead = a->lead + sup -
		       (int64_t)((uint64_t)len * a->sure / MPIB_ADAPT_ONE);

	if (__builtin_expect((uint64_t)(lead + MPIB_ADAPT_LEAD) >
				     2 * MPIB_ADAPT_LEAD,
			     0))
		lead = lead < 0 ? -MPIB_ADAPT_LEAD : MPIB_ADAPT_LEAD;
	a->lead = lead;
}

/* adapt.c: as mpib_adapt_posted(), of a small message or one that could be cut. */
int64_t mpib_adapt_follow(struct mpib_adapt *a, uint32_t sout, uint32_t sup);
/* A send op was posted, with so many bytes by rail: the one that was asked for
 * last, if any was asked for since the last post. Not below 0:
 * mpib_adapt_ended() is to be told of its end, with this. */
static inline int64_t mpib_adapt_posted(struct mpib_adapt *a, uint32_t sout,
					uint32_t sup)
{
	uint8_t answer = a->answer;

	if (answer == MPIB_ADAPT_NONE)
		return -1;
	if (answer != MPIB_ADAPT_BY_QUEUE)
		return mpib_adapt_follow(a, sout, sup);
	a->answer = MPIB_ADAPT_NONE;
	mpib_adapt_lead(a, sout + sup, sup);
	return -1;
}
/* All of its stripes are acknowledged. Not for one that was posted again. */
void mpib_adapt_ended(struct mpib_adapt *a, const struct mpib_tracker *track,
		      const struct mpib_adapt_end *end);

#endif
