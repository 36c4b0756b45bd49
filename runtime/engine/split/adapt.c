/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The adaptive split of one lane: see adapt.h. Shard thread.
 */
#include "engine/split/adapt.h"

#include "engine/split/mode.h"

#define ONE MPIB_ADAPT_ONE
#define ALL MPIB_ADAPT_ALL
/* ns, added to measured times, because very short times are inexact */
#define SHORT 2000u
#define STRIDE (int32_t)(ONE / 8)
#define MEAN 4 /* `off` and `noise` are smoothed over about this many rounds */
#define SURE 64 /* parts of ONE; noise below this counts as none */
/* after a round with only noise, the distance of the weight from the middle
 * shrinks by 1/HOME */
#define HOME 16
#define EDGE (ONE / 512) /* smallest weight */
#define NEARLY 24u /* parts of ALL; a smaller change is not reported */
#define RUN 32 /* small messages between two tries of the other rail */
/* Minimum size of a part in bytes. The end times of smaller parts are not
 * useful as measurements. */
#define LEAST (24u << 10)
/* a cut must shorten a message by more than 1/CUT_GAIN */
#define CUT_GAIN 32

static void adapt_round(struct mpib_adapt *a, struct mpib_tracker *track,
			uint64_t now)
{
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		track[r].ends = (struct mpib_track_ends){
			.since = now,
			.bytes = track[r].sum->bytes,
			.ns = track[r].sum->ns,
		};
	a->round = now;
}

void mpib_adapt_init(struct mpib_adapt *a, struct mpib_tracker *track,
		     uint64_t now)
{
	*a = (struct mpib_adapt){
		.cut_weight = ONE / 2,
		.share = ALL / 2,
		.since = now,
	};
	mpib_adapt_weigh(a, ONE / 2);
	mpib_choice_init(&a->cut, CUT_GAIN);
	adapt_round(a, track, now);
}

/* Return the rail's speed in its current round, in bytes << 20 per ns. */
static uint64_t speed_of(const struct mpib_tracker *t)
{
	uint64_t bytes = t->sum->bytes - t->ends.bytes;
	uint64_t ns = t->sum->ns - t->ends.ns;

	return (bytes << 10) / ((ns + SHORT) >> 10);
}

static uint32_t distance(uint32_t a, uint32_t b)
{
	return a > b ? a - b : b - a;
}

void mpib_adapt_weigh(struct mpib_adapt *a, uint32_t weight)
{
	uint32_t noise = (uint32_t)a->noise;

	a->weight = weight;
	a->sure = distance(weight, ONE / 2) < noise ? ONE / 2 : weight;
	a->unsure = MPIB_ADAPT_NEAR + 4 * noise;
}

static uint32_t clamp_weight(int32_t weight)
{
	if (weight < (int32_t)EDGE)
		return EDGE;
	return weight > (int32_t)(ONE - EDGE) ? ONE - EDGE : (uint32_t)weight;
}

/* Adjust the weight after a round, by the rule in docs/split.md. `e` is the
 * error of the weight that the round measured. */
static void adapt_step(struct mpib_adapt *a, int32_t e)
{
	int32_t home = (int32_t)(ONE / 2) - (int32_t)a->weight;
	int32_t size, off, trust = 256;

	if (e > STRIDE)
		e = STRIDE;
	if (e < -STRIDE)
		e = -STRIDE;
	size = e < 0 ? -e : e;
	a->off += (e - a->off) / MEAN;
	a->noise += (size - a->noise) / MEAN;
	off = a->off < 0 ? -a->off : a->off;
	if (a->noise > SURE && off < a->noise)
		trust = off * 256 / a->noise;
	mpib_adapt_weigh(a, clamp_weight((int32_t)a->weight + e * trust / 256 +
					 home * (256 - trust) / (256 * HOME)));
}

/* Publish the weight if it has changed. */
static void adapt_tell(struct mpib_adapt *a, uint64_t now)
{
	uint32_t was = a->cut_weight, share = a->weight / (ONE / ALL);
	uint32_t lesser = was < ONE / 2 ? was : ONE - was;

	if (distance(share, a->share) >= NEARLY) {
		a->share = share;
		a->since = now;
	}
	/* Drop the samples of cuts if the weight was very different at their
	 * time. */
	if (distance(a->weight, was) > lesser / 4) {
		mpib_choice_init(&a->cut, CUT_GAIN);
		a->cut_weight = a->weight;
	}
}

/* Return whether the round has lasted long enough and stripes have ended on
 * both rails. */
static bool is_round(const struct mpib_adapt *a,
		     const struct mpib_tracker *track, uint64_t now)
{
	return now - a->round >= MPIB_ADAPT_ROUND &&
	       track[MPIB_RAIL_SOUT].ends.n && track[MPIB_RAIL_SUP].ends.n;
}

/* End the round, and move the weight. */
__attribute__((noinline)) static void
end_round(struct mpib_adapt *a, struct mpib_tracker *track, uint64_t now)
{
	uint64_t fast = speed_of(&track[MPIB_RAIL_SUP]);
	uint64_t slow = speed_of(&track[MPIB_RAIL_SOUT]);

	adapt_step(a, (int32_t)(fast * ONE / (fast + slow + 1)) -
			      (int32_t)a->weight);
	adapt_round(a, track, now);
	adapt_tell(a, now);
}

static uint64_t both_gone(const struct mpib_tracker *track)
{
	return track[MPIB_RAIL_SOUT].sum->acked +
	       track[MPIB_RAIL_SUP].sum->acked;
}

/* Return SUP's bytes of a small message's send op. */
__attribute__((noinline)) static uint32_t
adapt_small(struct mpib_adapt *a, const struct mpib_tracker *track,
	    uint32_t len, uint64_t now)
{
	const struct mpib_tracker *other = &track[!a->fast];
	uint64_t here = track[a->fast].latency;
	bool sup = a->fast == MPIB_RAIL_SUP;

	a->answer = MPIB_ADAPT_BY_LATENCY;
	/* Change the rail only for a gain of more than an eighth, because
	 * measured latencies are never exactly equal. */
	if (other->latency && other->latency < here - here / 8) {
		a->fast = !a->fast;
		a->run = 0;
		sup = !sup;
	} else if (a->run >= RUN &&
		   now - other->latency_at >= MPIB_ADAPT_STALE &&
		   !mpib_tracker_oldest(other)) {
		sup = !sup;
	}
	return sup ? len : 0;
}

/* Divide a send op of `len` bytes so that both rails would end at the same
 * time, including their bytes in flight. Return SUP's bytes. */
static uint32_t adapt_level(const struct mpib_adapt *a, uint64_t in_sout,
			    uint64_t in_sup, uint32_t len)
{
	uint64_t want = (in_sout + in_sup + len) * a->weight / ONE;
	uint64_t sup = want > in_sup ? want - in_sup : 0;

	return sup < len ? (uint32_t)sup : len;
}

/* Return whether a cut may help. It may if one rail could become idle before a
 * whole send op of `len` bytes ends on the other rail. */
static bool runs_dry(uint64_t in_sout, uint64_t in_sup, uint32_t len)
{
	return 2 * in_sout < len || 2 * in_sup < len;
}

/* Assign a small part of a send op of `len` bytes to rail r, which has been
 * idle for a long time. Return SUP's bytes. */
__attribute__((noinline)) static uint32_t adapt_try(struct mpib_adapt *a,
						    uint32_t len, unsigned r)
{
	uint32_t try = len < 2 * MPIB_ADAPT_TRY ? len : MPIB_ADAPT_TRY;

	/* Do not use this send op as a sample of cuts. */
	a->answer = MPIB_ADAPT_BY_QUEUE;
	if (r == MPIB_RAIL_SUP)
		return try;
	return (len - try) & ~(MPIB_ALIGN - 1);
}

/* If a cut would end the send op sooner according to the measurements, return
 * SUP's bytes. Otherwise return 0. Call this only if no other send op waits to
 * be posted. */
static uint32_t adapt_cut(struct mpib_adapt *a,
			  const struct mpib_tracker *track, uint64_t in_sout,
			  uint64_t in_sup, uint32_t len)
{
	uint32_t least = len / CUT_GAIN, sup;

	sup = adapt_level(a, in_sout, in_sup, len);
	least = least > LEAST ? least : LEAST;
	if (sup <= least || len - sup <= least)
		return 0;
	a->answer = MPIB_ADAPT_BY_CUT;
	a->before = both_gone(track);
	if (!mpib_choice_spread(&a->cut, len))
		return 0;
	/* Convert to parts of 1024, rounded up, because mpib_sup_bytes() rounds
	 * down. */
	return mpib_sup_bytes((uint32_t)(((uint64_t)sup * ALL + len - 1) / len),
			      len);
}

/* Return the rail that would end a whole send op of `len` bytes first, given
 * the bytes in flight. If the end times are about equal, return the rail that
 * has carried less than its weight. */
static inline unsigned whole_rail(const struct mpib_adapt *a, uint64_t in_sout,
				  uint64_t in_sup, uint32_t len)
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

/* Return whether rail r has nothing in flight and was not used for a long time,
 * although the other rail was. */
static inline bool is_stale(const struct mpib_tracker *track, unsigned r,
			    uint64_t now)
{
	const struct mpib_tracker *other = &track[!r];
	uint64_t used;

	if (mpib_tracker_oldest(&track[r]))
		return false;
	used = mpib_tracker_oldest(other) ? now : other->busy_since;
	return used >= track[r].busy_since + MPIB_ADAPT_STALE;
}

/* Return SUP's bytes of a send op that is not cut. */
static inline uint32_t by_queue(struct mpib_adapt *a,
				const struct mpib_tracker *track,
				uint64_t in_sout, uint64_t in_sup, uint32_t len,
				uint64_t now)
{
	if (whole_rail(a, in_sout, in_sup, len) == MPIB_RAIL_SOUT)
		return is_stale(track, MPIB_RAIL_SUP, now)
			       ? adapt_try(a, len, MPIB_RAIL_SUP)
			       : 0;
	return is_stale(track, MPIB_RAIL_SOUT, now)
		       ? adapt_try(a, len, MPIB_RAIL_SOUT)
		       : len;
}

uint32_t mpib_adapt_split(struct mpib_adapt *a, struct mpib_tracker *track,
			  enum mpib_adapt_op op, uint32_t len,
			  const uint32_t *planned, uint64_t now)
{
	uint64_t in_sout = track[MPIB_RAIL_SOUT].sum->inflight;
	uint64_t in_sup = track[MPIB_RAIL_SUP].sum->inflight;
	uint32_t sup;

	if (op == MPIB_ADAPT_SHORT &&
	    track[a->fast].sum->inflight <= MPIB_ADAPT_BUSY)
		return adapt_small(a, track, len, now);
	a->answer = MPIB_ADAPT_BY_QUEUE;
	if (is_round(a, track, now))
		end_round(a, track, now);
	if (planned) {
		in_sout += planned[MPIB_RAIL_SOUT];
		in_sup += planned[MPIB_RAIL_SUP];
	}
	/* If another send op waits, no rail will become idle, so do not cut. */
	if (op == MPIB_ADAPT_ALONE && runs_dry(in_sout, in_sup, len)) {
		sup = adapt_cut(a, track, in_sout, in_sup, len);
		if (sup)
			return sup;
	}
	return by_queue(a, track, in_sout, in_sup, len, now);
}

/* Update `lead` after the post of a send op of `len` bytes, of which SUP
 * carries `sup`. */
static void adapt_lead(struct mpib_adapt *a, uint32_t len, uint32_t sup)
{
	int64_t lead = a->lead + sup - (int64_t)((uint64_t)len * a->sure / ONE);

	if ((uint64_t)(lead + MPIB_ADAPT_LEAD) > 2 * MPIB_ADAPT_LEAD)
		lead = lead < 0 ? -MPIB_ADAPT_LEAD : MPIB_ADAPT_LEAD;
	a->lead = lead;
}

int64_t mpib_adapt_posted(struct mpib_adapt *a, uint32_t sout, uint32_t sup)
{
	enum mpib_adapt_answer answer = (enum mpib_adapt_answer)a->answer;
	uint32_t len = sout + sup;

	if (answer == MPIB_ADAPT_NONE)
		return -1;
	a->answer = MPIB_ADAPT_NONE;
	if (answer == MPIB_ADAPT_BY_LATENCY) {
		a->run = !sup == (a->fast == MPIB_RAIL_SOUT) ? a->run + 1 : 0;
		return -1;
	}
	adapt_lead(a, len, sup);
	if (answer == MPIB_ADAPT_BY_QUEUE)
		return -1;
	mpib_choice_posted(&a->cut, len);
	return (int64_t)a->before;
}

void mpib_adapt_ended(struct mpib_adapt *a, const struct mpib_tracker *track,
		      const struct mpib_adapt_end *end)
{
	uint64_t gone = both_gone(track) - end->before;

	mpib_choice_note(&a->cut, end->bytes, end->cut, end->ns,
			 gone > end->bytes ? gone - end->bytes : 0);
}

/* The decision whether to spread a part, see adapt.h. Shard thread. */

#define MIB (1u << 20)
#define COST 64
#define EVERY_MAX 1024u

static unsigned class_of(uint32_t bytes)
{
	return 31u - (unsigned)__builtin_clz(bytes | 1);
}

void mpib_choice_init(struct mpib_choice *c, uint32_t margin)
{
	*c = (struct mpib_choice){ .above = UINT32_MAX, .margin = margin };
}

/* To measure both ways, every n-th part is sent in the less usual one. Return
 * n. If that way costs more, choose n so that the extra cost is at most 1/COST
 * of the time. */
static uint32_t choice_every(const struct mpib_choice_class *k, bool usual)
{
	uint64_t cheap = k->cost[usual], dear = k->cost[!usual];
	uint64_t every;

	if (!cheap || dear < cheap)
		return MPIB_CHOICE_TRY;
	every = (dear - cheap) * COST / cheap;
	if (every < MPIB_CHOICE_TRY)
		return MPIB_CHOICE_TRY;
	return every < EVERY_MAX ? (uint32_t)every : EVERY_MAX;
}

static bool is_try(const struct mpib_choice_class *k, bool usual)
{
	return k->parts - k->tried >= choice_every(k, usual) - 1;
}

/* Return whether spreading is cheaper by a third. Such a difference is clear
 * after one part that was spread and one that was not. */
static bool choice_is_clear(const struct mpib_choice_class *k)
{
	return k->cost[0] && k->cost[1] && k->cost[1] < k->cost[0] / 3 * 2;
}

void mpib_choice_posted(struct mpib_choice *c, uint32_t bytes)
{
	struct mpib_choice_class *k = &c->class[class_of(bytes)];

	if (is_try(k, bytes > c->above))
		k->tried = k->parts + 1;
	k->parts++;
}

bool mpib_choice_spread(const struct mpib_choice *c, uint32_t bytes)
{
	const struct mpib_choice_class *k = &c->class[class_of(bytes)];
	bool spread = bytes > c->above;

	if (k->parts < MPIB_CHOICE_FIRST && !choice_is_clear(k))
		return k->parts % 2;
	return is_try(k, spread) ? !spread : spread;
}

static void choice_reckon(struct mpib_choice *c)
{
	c->above = UINT32_MAX;
	for (unsigned i = MPIB_CHOICE_CLASSES; i-- > 0;) {
		const struct mpib_choice_class *k = &c->class[i];

		if (!k->cost[0] || !k->cost[1])
			continue;
		if (!k->spread)
			return;
		c->above = (1u << i) - 1;
	}
}

void mpib_choice_note(struct mpib_choice *c, uint32_t bytes, bool spread,
		      uint64_t ns, uint64_t others)
{
	struct mpib_choice_class *k = &c->class[class_of(bytes)];
	uint64_t cost = 1 + ns * MIB / (others + bytes + 1);
	uint64_t *mine = &k->cost[spread];

	*mine = *mine ? (7 * *mine + cost + 7) / 8 : cost;
	if (!k->cost[0] || !k->cost[1])
		return;
	cost = k->cost[k->spread];
	if (k->cost[!k->spread] < cost - cost / c->margin)
		k->spread = !k->spread;
	choice_reckon(c);
}

/*
 * Unacknowledged stripes of one rail of a lane: see adapt.h. Shard thread.
 */

void mpib_tracker_init(struct mpib_tracker *t, struct mpib_track_sum *sum)
{
	*t = (struct mpib_tracker){ .sum = sum };
	TAILQ_INIT(&t->unacked);
}

uint64_t mpib_tracker_busy(const struct mpib_tracker *t, uint64_t now)
{
	if (TAILQ_EMPTY(&t->unacked))
		return t->busy_ns;
	return t->busy_ns + (now - t->busy_since);
}
