/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether what is owed adds up: a shard's sums are what their owners have. Each is
 * added and taken back at one place, so one that does not fit was lost there.
 */
#include "engine/flow/flow.h"

struct sums {
	uint64_t sends, receives, promised; /* of a rail's CQ */
	uint64_t inflight;
};

static void add_qps(const struct mpib_lane *lane, unsigned r, struct sums *sum)
{
	for (unsigned i = 0; i < lane->qps[r]; i++) {
		const struct mpib_lane_qp *q = &lane->qp[r][i];

		if (lane->held >> r & 1)
			sum->sends += mpib_qp_outstanding(q);
		if (q->promised)
			sum->promised += MPIB_BUDGET_PER_QP;
	}
}

static struct sums add_up(const struct mpib_shard *s, unsigned r)
{
	struct sums sum = { 0 };
	const struct mpib_tenant *t;
	const struct mpib_lane *lane;

	TAILQ_FOREACH(t, &s->tenants, link)
	{
		sum.receives += t->srq_posted[r];
		if (t->promised[r])
			sum.promised += s->engine->cfg.srq_high;
	}
	TAILQ_FOREACH(lane, &s->lanes, link)
	{
		if (r >= lane->rails)
			continue;
		add_qps(lane, r, &sum);
		sum.inflight += lane->track[r].inflight;
	}
	return sum;
}

/* Bytes of the lane's pieces that rail r carries. */
static uint64_t carried(const struct mpib_lane *lane, unsigned r)
{
	const struct mpib_flow *f;
	uint64_t bytes = 0;

	TAILQ_FOREACH(f, &lane->flows, lane_link)
	{
		for (uint32_t i = f->is_sender ? f->tx.piece_tail : 0;
		     f->is_sender && i != f->tx.piece_head; i++) {
			const struct mpib_piece *p =
				&f->tx.piece[i % MPIB_PIECES];

			for (unsigned k = 0; k < MPIB_RAILS; k++) {
				if (p->chunk[k].posted && p->c.carrier[k] == r)
					bytes += p->chunk[k].bytes;
			}
		}
	}
	return bytes;
}

static unsigned sender_holds(const struct mpib_sender *tx)
{
	unsigned n = 0;

	for (uint32_t i = tx->ext_tail; i != tx->ext_head; i++)
		n += tx->ext[i % MPIB_EXTENTS].mr != NULL;
	for (unsigned i = 0; i < tx->group.n; i++)
		n += tx->group.held >> i & 1 && tx->group.ext[i].mr;
	for (uint32_t i = tx->piece_tail; i != tx->piece_head; i++) {
		const struct mpib_piece *p = &tx->piece[i % MPIB_PIECES];

		for (unsigned k = 0; k < p->n; k++)
			n += p->share[k].mr != NULL;
	}
	return n;
}

static unsigned receiver_holds(const struct mpib_receiver *rx)
{
	unsigned n = 0;

	for (unsigned i = 0; i < MPIB_SLOTS; i++)
		n += rx->slot[i].mr != NULL;
	return n;
}

static bool fits(struct mpib_sum *out, const char *what, uint64_t owed,
		 uint64_t have)
{
	if (owed == have)
		return true;
	*out = (struct mpib_sum){ what, owed, have };
	return false;
}

static bool regions_fit(const struct mpib_attachment *a, struct mpib_sum *out)
{
	uint64_t holds = 0, refs = 0;

	for (unsigned i = 0; i < MPIB_CONNS_MAX; i++) {
		const struct mpib_flow *f = a->flow[i];

		if (f)
			holds += f->is_sender ? sender_holds(&f->tx)
					      : receiver_holds(&f->rx);
	}
	for (unsigned h = 0; h < MPIB_MRS_MAX; h++)
		refs += a->mr_made[h] ? a->mr_made[h]->refs : 0;
	return fits(out, "holds of a client's regions", refs, holds);
}

static bool rail_fits(const struct mpib_shard *s, unsigned r,
		      struct mpib_sum *out)
{
	const struct mpib_rail *rail = &s->rail[r];
	const struct mpib_budget *b = &rail->budget;
	uint64_t promised =
		atomic_load_explicit(&b->promised, memory_order_relaxed);
	struct sums sum = add_up(s, r);

	/* A lane that is not connected yet is on no list. */
	if (sum.promised < promised)
		sum.promised = promised;
	return fits(out, "sends", b->sends, sum.sends) &&
	       fits(out, "receives", b->receives, sum.receives) &&
	       fits(out, "promised places", promised, sum.promised) &&
	       fits(out, "bytes of a rail", rail->inflight, sum.inflight);
}

static bool lane_fits(const struct mpib_lane *lane, struct mpib_sum *out)
{
	const struct mpib_flow *f;
	unsigned flows = 0;

	TAILQ_FOREACH(f, &lane->flows, lane_link)
	flows++;
	for (unsigned r = 0; r < lane->rails; r++) {
		if (!fits(out, "bytes of a lane", lane->track[r].inflight,
			  carried(lane, r)))
			return false;
	}
	return fits(out, "flows of a lane", lane->nflows, flows);
}

static bool pools_fit(const struct mpib_shard *s, struct mpib_sum *out)
{
	if (LIST_EMPTY(&s->rung) &&
	    !fits(out, "send requests", s->wrs.left, MPIB_WR_POOL))
		return false;
	return !s->vcq || mpib_vcq_busy(s->vcq) ||
	       fits(out, "fragments", s->frags.left, MPIB_WR_POOL);
}

bool mpib_shard_sums(const struct mpib_shard *s, struct mpib_sum *wrong)
{
	const struct mpib_attachment *a;
	const struct mpib_lane *lane;

	for (unsigned r = 0; r < s->engine->cfg.rails; r++) {
		if (!rail_fits(s, r, wrong))
			return false;
	}
	TAILQ_FOREACH(lane, &s->lanes, link)
	{
		if (!lane_fits(lane, wrong))
			return false;
	}
	TAILQ_FOREACH(a, &s->attachments, link)
	{
		if (!regions_fit(a, wrong))
			return false;
	}
	return pools_fit(s, wrong);
}
