/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Send ops: posting, and the account of what is in flight until every rail's
 * completion is in and, where the lane has end-to-end acks, until the receiver
 * has acknowledged the slot. Shard thread.
 */
#include "engine/conn/chain.h"
#include "engine/conn/report.h"
#include "engine/lane/spread.h"
#include "engine/measure/count.h"

/* True: the share's request is reported. */
static bool send_op_add_share(struct engine_conn *f, struct send_op *p,
			      const struct op_range *share)
{
	struct engine_request *r = &f->req[share->req];

	if (!r->posted)
		mpib_record(f, MPIB_TIME_SUBMIT_POST, f->shard->now - r->since);
	r->posted = true;
	if (share->mr)
		mpib_mr_ref(share->mr);
	p->n++;
	f->tx.share[f->tx.share_head++ % SEND_SHARES] = *share;
	return r->report;
}

static void note_imm(struct engine_conn *f, uint8_t imm)
{
	/* At first stripe k is carried by rail k. */
	*mpib_ended_at(f, f->tx.cts_next) =
		imm | (uint8_t)(1u << MPIB_RAIL_SUP << MPIB_RAILS) |
		(uint8_t)(f->tx.released ? MPIB_ENDED_RELEASED : 0);
	f->tx.released = false;
}

static void report_posts(struct engine_conn *f, uint8_t stripes,
			 const struct op_range *share, unsigned n)
{
	/* The QPs of a rail that is not open are the control thread's. */
	for (unsigned on = stripes; on; on &= on - 1) {
		unsigned r = (unsigned)__builtin_ctz(on);
		uint32_t qpn = engine_conn_qp(f, r, f->tx.cts_next)->qpn;

		for (unsigned i = 0; i < n; i++)
			mpib_report_post(f, share[i].req, r, qpn,
					 mpib_range_bytes(&share[i], r));
	}
}

/* The rail's part of the send op with this number. */
static void post_stripe(struct engine_conn *f, uint32_t number, unsigned r,
			struct mpib_chain *chain)
{
	struct mpib_lane *lane = f->lane;
	struct send_op *p = &f->tx.op[number];
	struct mpib_lane_qp *q;

	mpib_tracker_post(&lane->track[r], &p->stripe[r], chain->bytes,
			  f->shard->now);
	if (lane->spread == MPIB_SPREAD_AUTO && chain->bytes > lane->frag)
		mpib_choice_posted(&lane->choice[r], chain->bytes);
	f->shard->data_rail = r;
	q = engine_conn_qp(f, r, p->slot);
	if (__builtin_expect(p->c.spread & mpib_rail_bit(r), 0))
		mpib_chain_spread(f, chain, q, number);
	else
		mpib_chain_post(f, chain, q,
				mpib_wr_tag(MPIB_WR_OP, f->id, number));
}

void mpib_sender_post(struct engine_conn *f, struct mpib_chain *chain,
		      const struct op_range *share, unsigned n, uint8_t imm,
		      uint8_t spread)
{
	uint32_t number = f->tx.op_head++ % SEND_OPS;
	struct send_op *p = &f->tx.op[number];
	uint8_t stripes = (chain[MPIB_RAIL_SOUT].wrs.n > 0) << MPIB_RAIL_SOUT |
			  (chain[MPIB_RAIL_SUP].wrs.n > 0) << MPIB_RAIL_SUP;
	bool report = false;

	mpib_unstall(f);
	p->before =
		mpib_adapt_posted(&f->lane->adapt, chain[MPIB_RAIL_SOUT].bytes,
				  chain[MPIB_RAIL_SUP].bytes);
	if (f->lane->numbered)
		spread |= mpib_chain_bare(f->lane, chain);
	mpib_stripes_post(&p->c, stripes, imm);
	p->c.spread = spread;
	f->tx.spread = imm ? 0 : f->tx.spread | spread;
	p->slot = f->tx.cts_next;
	p->n = 0;
	p->first = f->tx.share_head;
	for (unsigned i = 0; i < n; i++)
		report |= send_op_add_share(f, p, &share[i]);
	if (imm)
		note_imm(f, imm);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		p->stripe[r].posted = p->stripe[r].bytes = 0;
	for (unsigned on = stripes; on; on &= on - 1) {
		unsigned r = (unsigned)__builtin_ctz(on);

		post_stripe(f, number, r, &chain[r]);
	}
	if (__builtin_expect(report, 0))
		report_posts(f, stripes, share, n);
}

struct mpib_record *mpib_sender_record(struct engine_conn *f)
{
	struct mpib_record *rec = f->tables.out;

	rec += f->tx.op_head % SEND_OPS;
	*rec = (struct mpib_record){ .seq = f->tx.cts_next + 1, .n = 1 };
	return rec;
}

uint32_t mpib_sender_imm(struct engine_conn *f, unsigned rail, uint8_t mask,
			 bool record, uint32_t bytes)
{
	uint32_t slot = (uint32_t)(f->tx.cts_next % MPIB_SLOTS);

	if (f->lane->imm_version == MPIB_IMM_V1)
		return mpib_imm_v1(slot, mask,
				   record ? MPIB_IMM_SIZEQ_SENTINEL
					  : mpib_size_q(bytes));
	return mpib_imm_v2(slot, mask, f->lane->epoch[rail], f->remote.id);
}

/* Of the group that waits for sends, some are staged: what is posted of them has
 * to leave the client's window for the rest. */
static bool group_starves(const struct engine_conn *f)
{
	const struct mpib_group *g = &f->tx.group;
	bool staged = false;

	for (unsigned i = 0; i < g->n; i++)
		staged |= g->matched & 1u << i && f->req[g->req[i]].multipart;
	return staged;
}

/* The rest of the oldest send op's slot cannot be posted before this send op is
 * over, for lack of a free one; or because the client feeds no more before it
 * gets some of the slot's bytes back: its staging window is smaller than the
 * peer's buffer, or than the group. Waiting for the end-to-end ack of the slot
 * would be a deadlock. */
static bool send_op_starves(struct engine_conn *f, const struct send_op *p)
{
	const struct engine_request *r = &f->req[send_op_share(f, p, 0)->req];

	if (p->slot != f->tx.cts_next)
		return false;
	if (!send_op_free(f))
		return true;
	if (!mpib_match_none(f))
		return false;
	if (f->tx.group.n)
		return group_starves(f);
	return r->multipart && r->fed < r->total;
}

/* The rails acknowledged the send op, but its end-to-end ack is not here: a
 * fence may still find that the peer lacks its bytes. */
static bool is_held(struct engine_conn *f, const struct send_op *p)
{
	if (!f->lane->delivered || p->slot < f->tx.acked || f->broken ||
	    f->stopping)
		return false;
	if (!send_op_starves(f, p))
		return true;
	f->tx.released = true;
	return false;
}

static void share_unref(const struct op_range *s)
{
	if (s->mr)
		mpib_mr_unref(s->mr);
}

static void send_op_unref(struct engine_conn *f, const struct send_op *p)
{
	for (unsigned i = 0; i < p->n; i++)
		share_unref(send_op_share(f, p, i));
}

/* The bytes of a range that was sent count for its request. */
static void share_count(struct engine_conn *f, const struct op_range *s)
{
	struct engine_request *r = &f->req[s->req];

	if (!r->active)
		return;
	r->done += s->len;
	if (r->done == r->total)
		engine_conn_finish(f, s->req, (int32_t)r->total, &r->total, 1);
	else
		engine_conn_progress(f, s->req, r->done);
}

/* Report the oldest send op to its requests: in the order posted, whatever rail
 * was faster. */
static void send_op_retire(struct engine_conn *f, const struct send_op *p)
{
	for (unsigned i = 0; i < p->n; i++) {
		const struct op_range *s = send_op_share(f, p, i);

		share_unref(s);
		share_count(f, s);
	}
}

void mpib_sender_settle(struct engine_conn *f)
{
	struct mpib_sender *tx = &f->tx;

	for (uint32_t i = tx->op_tail; i != tx->op_head; i++) {
		const struct send_op *p = send_op_at(f, i);

		for (unsigned k = 0; p->slot < tx->acked && k < p->n; k++)
			share_count(f, send_op_share(f, p, k));
	}
}

/* A sample for auto: the time of a stripe by one QP, or spread over several. A
 * replayed stripe, which another rail carries, is no sample. */
static void judge_way(struct engine_conn *f, const struct send_op *p,
		      unsigned k)
{
	const struct mpib_stripe *c = &p->stripe[k];
	const struct mpib_tracker *t = &f->lane->track[k];

	if (p->c.carrier[k] == k && c->bytes > f->lane->frag)
		mpib_choice_note(&f->lane->choice[k], c->bytes,
				 p->c.spread >> k & 1,
				 f->shard->now - c->posted,
				 mpib_tracker_gone(t) - c->before);
}

/* Stripe k is no longer in flight; ok: acknowledged, so it is a sample. */
static void leave_tracker(struct engine_conn *f, struct send_op *p, unsigned k,
			  bool ok)
{
	struct mpib_tracker *t = &f->lane->track[p->c.carrier[k]];

	for (unsigned i = 0; ok && i < p->n; i++)
		mpib_report_done(f, send_op_share(f, p, i)->req,
				 p->c.carrier[k], 0, 0);
	if (ok) {
		if (f->lane->spread == MPIB_SPREAD_AUTO)
			judge_way(f, p, k);
		mpib_record(f, MPIB_TIME_POST_SOUT + p->c.carrier[k],
			    f->shard->now - p->stripe[k].posted);
		mpib_tracker_ack(t, &p->stripe[k], f->shard->now);
	} else {
		mpib_tracker_drop(t, &p->stripe[k], f->shard->now);
	}
}

/* The last stripes of a send op were acknowledged, ns after its post. One that
 * was replayed tells nothing. */
static void judge_cut(struct engine_conn *f, const struct send_op *p,
		      uint64_t ns)
{
	const uint32_t sout = p->stripe[MPIB_RAIL_SOUT].bytes;
	const uint32_t sup = p->stripe[MPIB_RAIL_SUP].bytes;
	const struct mpib_adapt_end end = { .bytes = sout + sup,
					    .cut = sout && sup,
					    .ns = ns,
					    .before = (uint64_t)p->before };

	if (p->c.carrier[MPIB_RAIL_SOUT] == MPIB_RAIL_SOUT &&
	    p->c.carrier[MPIB_RAIL_SUP] == MPIB_RAIL_SUP)
		mpib_adapt_ended(&f->lane->adapt, f->lane->track, &end);
}

int mpib_sender_retire(struct engine_conn *f)
{
	struct mpib_sender *tx = &f->tx;
	int n = 0;

	for (; tx->op_tail != tx->op_head; n++) {
		struct send_op *p = send_op_at(f, tx->op_tail);

		if (p->c.pending)
			break;
		if (is_held(f, p)) {
			if (!f->on_ack)
				mpib_ack_enter(f);
			break;
		}
		tx->op_tail++;
		send_op_retire(f, p);
	}
	return n;
}

void mpib_sender_completed(struct engine_conn *f, unsigned op, uint8_t stripes,
			   bool ok)
{
	struct send_op *p = send_op_at(f, op);
	uint64_t posted;

	stripes &= p->c.pending;
	if (!stripes)
		return;
	p->c.pending &= (uint8_t)~stripes;
	posted = p->stripe[!(stripes & 1u)].posted;
	for (unsigned on = stripes; on; on &= on - 1)
		leave_tracker(f, p, (unsigned)__builtin_ctz(on), ok);
	if (__builtin_expect(p->before >= 0 && ok && !p->c.pending, 0))
		judge_cut(f, p, f->shard->now - posted);
	for (unsigned i = 0; !ok && i < p->n; i++) {
		struct op_range *o = send_op_share(f, p, i);

		o->len = 0; /* not sent: no progress */
		if (f->stopping)
			engine_conn_finish(f, o->req, f->stop_error, NULL, 0);
	}

	mpib_sender_retire(f);
	if (f->stopping)
		engine_conn_check_stopped(f);
}

bool mpib_sender_idle(const struct engine_conn *f)
{
	return f->tx.op_tail == f->tx.op_head;
}

void mpib_sender_forget(struct engine_conn *f)
{
	struct mpib_sender *tx = &f->tx;

	for (; tx->op_tail != tx->op_head; tx->op_tail++) {
		struct send_op *p = send_op_at(f, tx->op_tail);

		send_op_unref(f, p);
		for (unsigned r = 0; r < MPIB_RAILS; r++)
			leave_tracker(f, p, r, false);
	}
}
