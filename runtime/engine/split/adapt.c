/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The adaptive split of one lane: see adapt.h. Shard thread.
 */
#include "engine/split/adapt.h"

#define MS 1000000ull

#define ONE MPIB_ADAPT_ONE
#define ALL 1024u
#define ROUND (8 * MS) /* shortest time over which ends are compared */
#define SHORT 2000u /* ns; less says nothing of a rail */
#define STRIDE (int32_t)(ONE / 8)
#define MEAN 4 /* mean and noise: of about so many rounds */
#define SURE 64 /* of ONE: so little noise is none */
#define HOME 16 /* pure noise takes this part of the way back */
#define EDGE (ONE / 512) /* no weight is less */
#define NEARLY 24u /* of ALL: a smaller change is not told */
#define STALE (100 * MS) /* a rail without a post for this long is tried */
#define TRY (64u << 10) /* most bytes given to a rail to try it */
#define RUN 32 /* small messages between two tries */
#define LEAST (24u << 10) /* of a part; ends of small ones say nothing */
#define CUT_GAIN 32 /* a cut ends a message sooner by more than this part */
#define BUSY                                                                   \
	(UINT64_C(4) *                                                         \
	 MPIB_ADAPT_SMALL) /* bytes: a queue, for small messages */
#define LEAD_MAX (8ll << 20)

static void adapt_round(struct mpib_adapt *a, struct mpib_tracker *track,
			uint64_t now)
{
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		mpib_tracker_round(&track[r], now);
	a->round = now;
}

void mpib_adapt_init(struct mpib_adapt *a, struct mpib_tracker *track,
		     uint64_t now)
{
	*a = (struct mpib_adapt){
		.weight = ONE / 2,
		.cut_weight = ONE / 2,
		.share = ALL / 2,
		.since = now,
	};
	mpib_choice_init(&a->cut, CUT_GAIN);
	adapt_round(a, track, now);
}

/* How fast the rail was in its round: bytes << 20 per ns. */
static uint64_t speed_of(const struct mpib_tracker *t)
{
	uint64_t bytes = t->sum->bytes - t->ends.bytes;
	uint64_t ns = t->sum->ns - t->ends.ns;

	return (bytes << 10) / ((ns + SHORT) >> 10);
}

static uint32_t clamp_weight(int32_t weight)
{
	if (weight < (int32_t)EDGE)
		return EDGE;
	return weight > (int32_t)(ONE - EDGE) ? ONE - EDGE : (uint32_t)weight;
}

/* One step of the law: e is what the weight lacks by the round's ends. */
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
	a->weight = clamp_weight((int32_t)a->weight + e * trust / 256 +
				 home * (256 - trust) / (256 * HOME));
}

static uint32_t distance(uint32_t a, uint32_t b)
{
	return a > b ? a - b : b - a;
}

/* The weight is another one now. */
static void adapt_tell(struct mpib_adapt *a, uint64_t now)
{
	uint32_t was = a->cut_weight, share = a->weight / (ONE / ALL);
	uint32_t lesser = was < ONE / 2 ? was : ONE - was;

	if (distance(share, a->share) >= NEARLY) {
		a->share = share;
		a->since = now;
	}
	/* What was cut under quite other weights says little. */
	if (distance(a->weight, was) > lesser / 4) {
		mpib_choice_init(&a->cut, CUT_GAIN);
		a->cut_weight = a->weight;
	}
}

static void adapt_update(struct mpib_adapt *a, struct mpib_tracker *track,
			 uint64_t now)
{
	struct mpib_tracker *sout = &track[MPIB_RAIL_SOUT];
	struct mpib_tracker *sup = &track[MPIB_RAIL_SUP];
	uint64_t fast, slow;

	if (!sout->ends.n || !sup->ends.n || now - a->round < ROUND)
		return;
	fast = speed_of(sup);
	slow = speed_of(sout);
	adapt_step(a, (int32_t)(fast * ONE / (fast + slow + 1)) -
			      (int32_t)a->weight);
	adapt_round(a, track, now);
	adapt_tell(a, now);
}

/* The bytes in flight on both rails, with those that are planned. */
static void queues_of(const struct mpib_tracker *track, const uint32_t *planned,
		      uint64_t *queue)
{
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		queue[r] = mpib_tracker_queue(&track[r]) +
			   (planned ? planned[r] : 0);
}

static uint64_t both_gone(const struct mpib_tracker *track)
{
	return mpib_tracker_gone(&track[MPIB_RAIL_SOUT]) +
	       mpib_tracker_gone(&track[MPIB_RAIL_SUP]);
}

static uint32_t adapt_small(struct mpib_adapt *a,
			    const struct mpib_tracker *track, uint64_t now)
{
	const struct mpib_tracker *other = &track[!a->fast];
	uint64_t here = track[a->fast].latency;
	bool sup = a->fast == MPIB_RAIL_SUP;

	/* Change only for more than an eighth: measured latencies are never
	 * quite the same. */
	if (other->latency && other->latency < here - here / 8) {
		a->fast = !a->fast;
		a->run = 0;
		sup = !sup;
	} else if (a->run >= RUN && now - other->latency_at >= STALE &&
		   !mpib_tracker_oldest(other)) {
		sup = !sup;
	}
	return sup ? ALL : 0;
}

/* SUP's bytes of a send op of len bytes, so that both rails, with what they
 * have in flight, end at the same time. */
static uint32_t adapt_level(const struct mpib_adapt *a, const uint64_t *queue,
			    uint32_t len)
{
	uint64_t sum = queue[MPIB_RAIL_SOUT] + queue[MPIB_RAIL_SUP] + len;
	uint64_t want = sum * a->weight / ONE;
	uint64_t sup =
		want > queue[MPIB_RAIL_SUP] ? want - queue[MPIB_RAIL_SUP] : 0;

	return sup < len ? (uint32_t)sup : len;
}

/* Whether it might end the send op sooner to cut it so that SUP has sup bytes
 * of it: a rail is about to run dry. */
static bool cut_may_help(const struct mpib_adapt_op *op, const uint64_t *queue,
			 uint32_t sup)
{
	uint32_t least = op->len / CUT_GAIN;

	if (least < LEAST)
		least = LEAST;
	return sup > least && op->len - sup > least &&
	       (2 * queue[MPIB_RAIL_SOUT] < op->len ||
		2 * queue[MPIB_RAIL_SUP] < op->len);
}

/* SUP's weight for a whole send op: rails whose weights differ by less than the
 * noise are taken to be equal. */
static uint32_t sure_weight(const struct mpib_adapt *a)
{
	return distance(a->weight, ONE / 2) < (uint32_t)a->noise ? ONE / 2
								 : a->weight;
}

/* The rail that ends the whole send op first. Where the two are about as good,
 * it is the one that has had less than its weight. */
static uint32_t adapt_whole(const struct mpib_adapt *a, const uint64_t *queue,
			    uint32_t len)
{
	uint32_t weight = sure_weight(a);
	uint64_t sup = (queue[MPIB_RAIL_SUP] + len) * (ONE - weight);
	uint64_t sout = (queue[MPIB_RAIL_SOUT] + len) * weight;
	uint64_t best = sup < sout ? sup : sout, worst = sup + sout - best;
	bool idle = !queue[MPIB_RAIL_SUP] && !queue[MPIB_RAIL_SOUT];
	uint64_t unsure = ONE / (idle ? 2 : 16) + 4 * (uint32_t)a->noise;

	if (worst - best <= best * unsure / ONE)
		return a->lead < 0 ? len : 0;
	return sup < sout ? len : 0;
}

/* Nothing is in flight on rail r, and nothing was posted there for long while
 * the other rail was used. */
static bool is_stale(const struct mpib_tracker *track, unsigned r, uint64_t now)
{
	const struct mpib_tracker *other = &track[!r];
	uint64_t used = mpib_tracker_oldest(other) ? now : other->busy_since;

	return !mpib_tracker_oldest(&track[r]) &&
	       used >= track[r].busy_since + STALE;
}

/* As sup, but a rail that had nothing for long gets a little. */
static uint32_t adapt_try(const struct mpib_tracker *track, uint32_t sup,
			  uint32_t len, uint64_t now)
{
	uint32_t try = len < 2 * TRY ? len : TRY;

	if (sup == 0 && is_stale(track, MPIB_RAIL_SUP, now))
		return try;
	if (sup == len && is_stale(track, MPIB_RAIL_SOUT, now))
		return len - try;
	return sup;
}

uint32_t mpib_adapt_share(struct mpib_adapt *a, struct mpib_tracker *track,
			  const struct mpib_adapt_op *op)
{
	uint64_t queue[MPIB_RAILS];
	uint32_t sup = 0, try;
	bool cut = false;

	a->answer = MPIB_ADAPT_BY_LATENCY;
	if (op->total <= MPIB_ADAPT_SMALL &&
	    mpib_tracker_queue(&track[a->fast]) <= BUSY)
		return adapt_small(a, track, op->now);
	queues_of(track, op->planned, queue);
	adapt_update(a, track, op->now);
	/* A rail that another send op waits for will not run dry. */
	if (!op->more) {
		sup = adapt_level(a, queue, op->len);
		cut = cut_may_help(op, queue, sup);
	}
	a->answer = cut ? MPIB_ADAPT_BY_CUT : MPIB_ADAPT_BY_QUEUE;
	if (!cut || !mpib_choice_spread(&a->cut, op->len))
		sup = adapt_whole(a, queue, op->len);
	a->before = both_gone(track);
	try = adapt_try(track, sup, op->len, op->now);
	if (try != sup)
		a->answer = MPIB_ADAPT_BY_QUEUE; /* says nothing of cutting */
	sup = try;
	if (sup == 0 || sup == op->len)
		return sup ? ALL : 0;
	/* Rounded up, for mpib_sup_bytes() rounds down. */
	return (uint32_t)(((uint64_t)sup * ALL + op->len - 1) / op->len);
}

int64_t mpib_adapt_follow(struct mpib_adapt *a, uint32_t sout, uint32_t sup)
{
	uint32_t len = sout + sup;
	uint8_t answer = a->answer;

	a->answer = MPIB_ADAPT_NONE;
	if (answer == MPIB_ADAPT_BY_LATENCY) {
		a->run = !sup == (a->fast == MPIB_RAIL_SOUT) ? a->run + 1 : 0;
		return -1;
	}
	a->lead += sup - (int64_t)((uint64_t)len * sure_weight(a) / ONE);
	if (a->lead > LEAD_MAX)
		a->lead = LEAD_MAX;
	if (a->lead < -LEAD_MAX)
		a->lead = -LEAD_MAX;
	if (answer != MPIB_ADAPT_BY_CUT)
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
