/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The adaptive split of one lane: see adapt.h. Shard thread.
 */
#include "engine/split/adapt.h"

#define MS 1000000ull

#define ALL 1024u
#define CHUNKS 4 /* stripes that a window needs: fewer say little */
#define WINDOW (10 * MS) /* shortest time over which a rate is measured */
#define LONG (100 * MS) /* after this a window ends with any stripe */
#define STALE (200 * MS) /* a rail without an ack for this long is tried */
#define NEARLY 24u /* of 1024: a smaller difference changes nothing */
#define TRY (64u << 10) /* most bytes given to a rail to try it */

void mpib_adapt_init(struct mpib_adapt *a, uint64_t now)
{
	*a = (struct mpib_adapt){ .share = ALL / 2, .since = now };
}

/* The rail's busy time up to its last ack. */
static uint64_t busy_at_ack(const struct mpib_tracker *t)
{
	if (mpib_tracker_oldest(t) && t->last_ack < t->busy_since)
		return t->busy_ns;
	return mpib_tracker_busy(t, t->last_ack);
}

/* End the rail's measuring window if it has enough stripes; true if that gave
 * a new rate. */
static bool adapt_measure(struct mpib_adapt_rail *r,
			  const struct mpib_tracker *t, uint64_t now)
{
	uint64_t stripes = t->acked - r->acked;
	uint64_t bytes = t->acked_bytes - r->acked_bytes;
	uint64_t busy, rate;

	if (!r->mark)
		r->mark = now;
	if (now - r->mark < WINDOW || stripes == 0 ||
	    (stripes < CHUNKS && now - r->mark < LONG))
		return false;
	busy = busy_at_ack(t) - r->busy;
	r->mark = now;
	r->acked = t->acked;
	r->acked_bytes = t->acked_bytes;
	r->busy += busy;
	/* Small messages measure latency, not rate. */
	if (bytes / stripes <= MPIB_ADAPT_SMALL)
		return false;
	rate = bytes * MS / (busy ? busy : 1);
	r->rate = r->rate ? (r->rate + rate + 1) / 2 : rate + 1;
	return true;
}

static void adapt_update(struct mpib_adapt *a, const struct mpib_tracker *track,
			 uint64_t now)
{
	struct mpib_adapt_rail *sout = &a->rail[MPIB_RAIL_SOUT];
	struct mpib_adapt_rail *sup = &a->rail[MPIB_RAIL_SUP];
	bool fresh = adapt_measure(sout, &track[MPIB_RAIL_SOUT], now);
	uint32_t share, off;

	fresh |= adapt_measure(sup, &track[MPIB_RAIL_SUP], now);
	if (!fresh || !sout->rate || !sup->rate)
		return;
	share = (uint32_t)(sup->rate * ALL / (sup->rate + sout->rate));
	off = share > a->share ? share - a->share : a->share - share;
	if (off < NEARLY)
		return;
	a->share = share;
	a->since = now;
}

/* In how many ns a small message posted to the rail now would be acked. */
static uint64_t answer_in(const struct mpib_adapt *a,
			  const struct mpib_tracker *t, unsigned r)
{
	uint64_t rate = a->rail[r].rate;

	return t->latency + (rate ? t->inflight * MS / rate : 0);
}

static bool must_try(struct mpib_adapt_rail *r, const struct mpib_tracker *t,
		     uint64_t heard, uint64_t now)
{
	if (mpib_tracker_oldest(t) || now - heard < STALE ||
	    now - r->tried < STALE)
		return false;
	r->tried = now;
	return true;
}

static uint32_t adapt_small(struct mpib_adapt *a,
			    const struct mpib_tracker *track, uint64_t now)
{
	unsigned other = !a->fast;
	uint64_t here, there;

	if (must_try(&a->rail[other], &track[other], track[other].latency_at,
		     now))
		return other == MPIB_RAIL_SUP ? ALL : 0;
	here = answer_in(a, &track[a->fast], a->fast);
	there = answer_in(a, &track[other], other);
	/* Change only for more than an eighth: measured latencies are never
	 * quite the same. */
	if (there && there < here - here / 8)
		a->fast = (uint8_t)other;
	return a->fast == MPIB_RAIL_SUP ? ALL : 0;
}

/* SUP's bytes of a send op of len bytes, so that both rails, with what they
 * have in flight, end at the same time. */
static uint32_t adapt_level(const struct mpib_adapt *a,
			    const struct mpib_tracker *track, uint32_t len)
{
	uint64_t gain = (len + track[MPIB_RAIL_SOUT].inflight) * a->share;
	uint64_t cost = track[MPIB_RAIL_SUP].inflight * (ALL - a->share);
	uint64_t sup = gain > cost ? (gain - cost) / ALL : 0;

	if (sup < MPIB_ADAPT_LEAST)
		return 0;
	return sup + MPIB_ADAPT_LEAST > len ? len : (uint32_t)sup;
}

uint32_t mpib_adapt_share(struct mpib_adapt *a,
			  const struct mpib_tracker *track, uint32_t total,
			  uint32_t len, uint64_t now)
{
	uint32_t sup, try = len / 4 < TRY ? len / 4 : TRY;

	if (len == 0)
		return 0;
	if (total <= MPIB_ADAPT_SMALL)
		return adapt_small(a, track, now);
	adapt_update(a, track, now);
	sup = adapt_level(a, track, len);
	if (sup < try &&
	    must_try(&a->rail[MPIB_RAIL_SUP], &track[MPIB_RAIL_SUP],
		     track[MPIB_RAIL_SUP].last_ack, now))
		sup = try;
	else if (len - sup < try &&
		 must_try(&a->rail[MPIB_RAIL_SOUT], &track[MPIB_RAIL_SOUT],
			  track[MPIB_RAIL_SOUT].last_ack, now))
		sup = len - try;
	/* Rounded up, so that sup == len gives ALL. */
	return (uint32_t)(((uint64_t)sup * ALL + len - 1) / len);
}
