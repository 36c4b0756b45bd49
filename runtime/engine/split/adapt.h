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

enum mpib_adapt_answer {
	MPIB_ADAPT_NONE,
	MPIB_ADAPT_BY_LATENCY,
	MPIB_ADAPT_BY_QUEUE,
	MPIB_ADAPT_BY_CUT, /* as cut says, be it whole or not */
};

struct mpib_adapt {
	uint32_t weight; /* SUP's, of MPIB_ADAPT_ONE */
	int32_t off, noise; /* differences of rounds: their mean, mean size */
	uint64_t round; /* when the present round began */
	uint32_t sure; /* weight of the last answer: half where unsure */
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

/* adapt.c, what mpib_adapt_share() seldom needs. A send op of a small message: as
 * mpib_adapt_share(). */
uint32_t mpib_adapt_small(struct mpib_adapt *a,
			  const struct mpib_tracker *track, uint64_t now);
/* The round is complete: the weight follows it. */
void mpib_adapt_end_round(struct mpib_adapt *a, struct mpib_tracker *track,
			  uint64_t now);
/* SUP's bytes of a send op that nothing waits behind, which may be cut. */
uint32_t mpib_adapt_alone(struct mpib_adapt *a,
			  const struct mpib_tracker *track,
			  const struct mpib_adapt_op *op);

/* The rail's bytes in flight, with those that are planned. */
static inline uint64_t mpib_adapt_queue(const struct mpib_tracker *track,
					const uint32_t *planned, unsigned r)
{
	return mpib_tracker_queue(&track[r]) + (planned ? planned[r] : 0);
}

/* SUP's weight for a whole send op: rails whose weights differ by less than the
 * noise are taken to be equal. */
static inline uint32_t mpib_adapt_sure(const struct mpib_adapt *a)
{
	const uint32_t half = MPIB_ADAPT_ONE / 2;
	uint32_t off = a->weight > half ? a->weight - half : half - a->weight;

	return off < (uint32_t)a->noise ? half : a->weight;
}

/* SUP's bytes of a whole send op: it goes to the rail that ends it first. Where the
 * two are about as good, that is the one that has had less than its weight. */
static inline uint32_t mpib_adapt_whole(const struct mpib_adapt *a,
					const struct mpib_tracker *track,
					const struct mpib_adapt_op *op)
{
	const uint64_t queue[MPIB_RAILS] = {
		mpib_adapt_queue(track, op->planned, MPIB_RAIL_SOUT),
		mpib_adapt_queue(track, op->planned, MPIB_RAIL_SUP),
	};
	uint64_t sup =
		(queue[MPIB_RAIL_SUP] + op->len) * (MPIB_ADAPT_ONE - a->sure);
	uint64_t sout = (queue[MPIB_RAIL_SOUT] + op->len) * a->sure;
	uint64_t best = sup < sout ? sup : sout, worst = sup + sout - best;
	bool idle = !queue[MPIB_RAIL_SUP] && !queue[MPIB_RAIL_SOUT];
	uint64_t unsure =
		MPIB_ADAPT_ONE / (idle ? 2 : 16) + 4 * (uint32_t)a->noise;

	if (worst - best <= best * unsure / MPIB_ADAPT_ONE)
		return a->lead < 0 ? op->len : 0;
	return sup < sout ? op->len : 0;
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

/* As sup, but a rail that had nothing for long gets a little: that says nothing of
 * cutting. */
static inline uint32_t mpib_adapt_try(struct mpib_adapt *a,
				      const struct mpib_tracker *track,
				      uint32_t sup,
				      const struct mpib_adapt_op *op)
{
	uint32_t try = op->len < 2 * MPIB_ADAPT_TRY ? op->len : MPIB_ADAPT_TRY;

	if (sup == 0 && mpib_adapt_stale(track, MPIB_RAIL_SUP, op->now))
		sup = try;
	else if (sup == op->len &&
		 mpib_adapt_stale(track, MPIB_RAIL_SOUT, op->now))
		sup = op->len - try;
	else
		return sup;
	a->answer = MPIB_ADAPT_BY_QUEUE;
	return sup;
}

/* SUP's parts per 1024 of the send op. track has one entry per rail; a round
 * that is complete ends here. */
__attribute__((always_inline)) static inline uint32_t
mpib_adapt_share(struct mpib_adapt *a, struct mpib_tracker *track,
		 const struct mpib_adapt_op *op)
{
	uint32_t sup;

	a->answer = MPIB_ADAPT_BY_LATENCY;
	if (op->total <= MPIB_ADAPT_SMALL &&
	    mpib_tracker_queue(&track[a->fast]) <= MPIB_ADAPT_BUSY)
		return mpib_adapt_small(a, track, op->now);
	if (track[MPIB_RAIL_SOUT].ends.n && track[MPIB_RAIL_SUP].ends.n &&
	    op->now - a->round >= MPIB_ADAPT_ROUND)
		mpib_adapt_end_round(a, track, op->now);
	a->answer = MPIB_ADAPT_BY_QUEUE;
	a->sure = mpib_adapt_sure(a);
	/* A rail that another send op waits for will not run dry. */
	sup = op->more ? mpib_adapt_whole(a, track, op)
		       : mpib_adapt_alone(a, track, op);
	sup = mpib_adapt_try(a, track, sup, op);
	if (sup == 0 || sup == op->len)
		return sup ? MPIB_ADAPT_ALL : 0;
	/* Rounded up, for mpib_sup_bytes() rounds down. */
	return (uint32_t)(((uint64_t)sup * MPIB_ADAPT_ALL + op->len - 1) /
			  op->len);
}

/* SUP got sup of len bytes. */
static inline void mpib_adapt_lead(struct mpib_adapt *a, uint32_t len,
				   uint32_t sup)
{
	int64_t lead = a->lead + sup -
		       (int64_t)((uint64_t)len * a->sure / MPIB_ADAPT_ONE);

	if (lead > MPIB_ADAPT_LEAD)
		lead = MPIB_ADAPT_LEAD;
	if (lead < -MPIB_ADAPT_LEAD)
		lead = -MPIB_ADAPT_LEAD;
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
