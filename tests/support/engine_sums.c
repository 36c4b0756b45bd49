/* SPDX-License-Identifier: Apache-2.0 */
/* Add up a shard's CQE reservations, bytes in flight, references to regions,
 * and WRs in pools. See sums.h. */
#include "engine/conn/conn.h"
#include "sums.h"

struct sums {
	/* reserved CQEs of a rail: for sends, for receives, and promised to
	 * QPs */
	uint64_t sends, receives, promised;
	/* CQEs that are promised according to the tenants' counters */
	uint64_t of_users;
	uint64_t inflight;
};

static void add_qps(const struct mpib_lane *lane, unsigned r, struct sums *sum)
{
	for (unsigned i = 0; i < lane->qps[r]; i++) {
		const struct mpib_lane_qp *q = &lane->qp[r][i];

		if (lane->rail[r].state != MPIB_RAIL_DOWN)
			sum->sends += mpib_qp_outstanding(q);
		if (q->promised)
			sum->promised += MPIB_BUDGET_PER_QP;
	}
}

static struct sums sums_add_up(const struct mpib_shard *s, unsigned r)
{
	struct sums sum = { 0 };
	const struct mpib_tenant *t;
	const struct mpib_lane *lane;

	TAILQ_FOREACH(t, &s->tenants, link)
	{
		sum.receives += t->srq_posted[r];
		sum.sends += t->loop[r].inflight;
		sum.promised += t->promised[r];
		sum.of_users += t->promised[r] +
				t->qps[r] * (uint64_t)MPIB_BUDGET_PER_QP;
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

/* Return the sum of the bytes that the lane's send ops have on rail `r`. */
static uint64_t sums_carried(const struct mpib_lane *lane, unsigned r)
{
	const struct engine_conn *f;
	uint64_t bytes = 0;

	TAILQ_FOREACH(f, &lane->conns, lane_link)
	{
		for (uint32_t i = f->is_sender ? f->tx.op_tail : 0;
		     f->is_sender && i != f->tx.op_head; i++) {
			const struct send_op *p = &f->tx.op[i % SEND_OPS];

			for (unsigned k = 0; k < MPIB_RAILS; k++) {
				if (p->stripe[k].posted && p->c.carrier[k] == r)
					bytes += p->stripe[k].bytes;
			}
		}
	}
	return bytes;
}

static unsigned sender_holds(const struct mpib_sender *tx)
{
	unsigned n = 0;

	for (uint32_t i = tx->range_tail; i != tx->range_head; i++)
		n += tx->range[i % SEND_RANGES].mr != NULL;
	for (unsigned i = 0; i < tx->group.n; i++)
		n += tx->group.held >> i & 1 && tx->group.range[i].mr;
	for (uint32_t i = tx->op_tail; i != tx->op_head; i++) {
		const struct send_op *p = &tx->op[i % SEND_OPS];

		for (unsigned k = 0; k < p->n; k++)
			n += tx->op_range[(p->first + k) % SEND_OP_RANGES].mr !=
			     NULL;
	}
	return n;
}

static unsigned receiver_holds(const struct engine_conn *f)
{
	const struct mpib_receiver *rx = &f->rx;
	unsigned n = 0;

	for (unsigned i = 0; i < MPIB_TABLE_SLOTS; i++)
		n += rx->slot[i].mr != NULL;
	for (unsigned i = 0; i < MPIB_FLUSHES; i++)
		n += rx->flush.at[i].mr != NULL;
	return n;
}

static bool regions_fit(const struct engine_client *a, struct sum *out)
{
	uint64_t holds = 0, refs = 0;

	for (unsigned i = 0; i < MPIB_INDEXES_MAX; i++) {
		const struct engine_conn *f = a->conn[i];

		if (f)
			holds += f->is_sender ? sender_holds(&f->tx)
					      : receiver_holds(f);
	}
	for (unsigned h = 0; h < MPIB_MRS_MAX; h++)
		refs += a->mr_made[h] ? a->mr_made[h]->refs : 0;
	return sum_fits(out, "references to a client's regions", refs, holds);
}

static bool rail_fits(const struct mpib_shard *s, unsigned r, struct sum *out)
{
	const struct mpib_rail *rail = &s->rail[r];
	const struct mpib_budget *b = &rail->budget;
	uint64_t promised =
		atomic_load_explicit(&b->promised, memory_order_relaxed);
	struct sums sum = sums_add_up(s, r);

	/* The counter may be greater than the sum over the listed objects,
	 * because some objects with reservations are on no list: lanes that are
	 * not connected yet, and tenants that are being added or removed. */
	if (sum.promised < promised)
		sum.promised = promised;
	if (sum.of_users < promised)
		sum.of_users = promised;
	return sum_fits(out, "sends", b->sends, sum.sends) &&
	       sum_fits(out, "receives", b->receives, sum.receives) &&
	       sum_fits(out, "promised CQEs", promised, sum.promised) &&
	       sum_fits(out, "promised CQEs of tenants", promised,
			sum.of_users) &&
	       sum_fits(out, "bytes of a rail", rail->bytes.inflight,
			sum.inflight);
}

static bool lane_fits(const struct mpib_lane *lane, struct sum *out)
{
	const struct engine_conn *f;
	unsigned conns = 0;

	TAILQ_FOREACH(f, &lane->conns, lane_link)
	conns++;
	for (unsigned r = 0; r < lane->rails; r++) {
		if (!sum_fits(out, "bytes of a lane", lane->track[r].inflight,
			      sums_carried(lane, r)))
			return false;
	}
	return sum_fits(out, "connections of a lane", lane->nconns, conns);
}

static bool pools_fit(const struct mpib_shard *s, struct sum *out)
{
	if (SLIST_EMPTY(&s->dirty) &&
	    !sum_fits(out, "send requests", s->wrs.left, MPIB_WR_POOL))
		return false;
	return !s->vcq || mpib_vcq_busy(s->vcq) ||
	       sum_fits(out, "fragments", s->frags.left, MPIB_WR_POOL);
}

bool sums_of_shard(const struct mpib_shard *s, struct sum *wrong)
{
	const struct engine_client *a;
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
	TAILQ_FOREACH(a, &s->clients, link)
	{
		if (!regions_fit(a, wrong))
			return false;
	}
	return pools_fit(s, wrong);
}
