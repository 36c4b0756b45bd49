/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of the sending end that are not plain: of a message in parts, or to a receive in
 * parts, by more than one rail or QP, with a record, or of what is too large for its
 * receive. One step posts one send op: the bytes that both the next CTS and the oldest
 * fitting range cover, and no more than the rails take as one WR. Shard thread.
 */
#include <mpib/wire.h>
#include <string.h>

#include "engine/conn/step.h"
#include "engine/lane/spread.h"
#include "engine/split/policy.h"

void mpib_sender_bad_cts(struct engine_conn *f)
{
	engine_conn_break(f, -EPROTO, "peer sent a CTS that cannot be right");
}

/*
 * Tell the receiver that its receive is too small: a record with -EMSGSIZE and
 * the message's size, by an IMM on the home rail. No byte of the message goes.
 * The send ends with the send op, so after its receive.
 */
__attribute__((noinline)) static bool sender_refuse(struct engine_conn *f,
						    const struct mpib_cts *cts)
{
	struct mpib_lane_qp *q[MPIB_RAILS];
	struct mpib_chain chain = { 0 };
	const uint32_t none[MPIB_RAILS] = { 0 };
	struct send_range *e = mpib_sender_oldest(f);
	unsigned home = engine_conn_home(f);
	uint8_t mask = mpib_rail_bit(home), req = e->req;
	struct mpib_record *rec;
	struct send_op *p;
	uint32_t number;

	if (!mpib_sender_may_post(f, 1, mask, 0, 1, none, q))
		return false;

	rec = mpib_sender_record(f);
	rec->status = -EMSGSIZE;
	rec->size[0] = mpib_total_of(f, e);
	mpib_sender_refused(f, req, cts->total);
	chain.rail = home;
	chain.q = q[home];
	mpib_chain_imm(f, &chain, mpib_sender_imm(f, home, mask, true, 0), rec);
	*mpib_sender_range(f, 0) = (struct op_range){ .req = req };
	number = mpib_sender_number(f);
	p = mpib_sender_post(f, 1, none, mask, mask, 0);
	p->report = false; /* no rail has bytes of it */
	mpib_sender_stripe(f, p, number, &chain, false);

	f->tx.cts_next++;
	f->tx.msg++;
	return true;
}

static uint8_t rails_with_bytes(const uint32_t *rail)
{
	return (uint8_t)((rail[MPIB_RAIL_SOUT] > 0) << MPIB_RAIL_SOUT |
			 (rail[MPIB_RAIL_SUP] > 0) << MPIB_RAIL_SUP);
}

/* How the step goes that is not plain. whole: the message and the part end
 * together, before the buffer does. */
__attribute__((noinline)) static struct mpib_step_how
step_not_plain(struct engine_conn *f, uint32_t at, uint32_t sout, uint32_t sup,
	       uint8_t imm, bool whole)
{
	const uint32_t rail[MPIB_RAILS] = { sout, sup };
	const struct mpib_lane *lane = f->lane;
	uint32_t len = sout + sup;
	struct mpib_step_how how = { false };

	if (lane->spread != MPIB_SPREAD_SPLIT)
		how.spread = mpib_spread_some(f->lane, f->tx.spread, rail, imm);
	if (!imm)
		return how;
	how.apart = len > f->shard->ar_above || how.spread;
	/* The receiver knows the size by byte_len alone if each rail's bytes
	 * are the payload of its IMM, and if the end of the message does not
	 * look like a full slot that more parts follow. */
	how.record = at > 0 || how.apart || whole ||
		     (lane->imm_version == MPIB_IMM_V1 &&
		      mpib_size_q(len) == MPIB_IMM_SIZEQ_SENTINEL);
	return how;
}

static inline void sender_plan(struct engine_conn *f, uint32_t total,
			       const struct send_range *e,
			       const struct mpib_cts *cts, struct mpib_step *s)
{
	struct mpib_sender *tx = &f->tx;
	const struct mpib_lane *lane = f->lane;
	uint32_t part_end = cts->pos + cts->len;
	uint32_t ext_end = e->pos + e->len;
	uint32_t end = part_end < ext_end ? part_end : ext_end;
	uint32_t len = end - tx->pos;

	if (__builtin_expect(len > lane->msg_most, 0)) {
		len = lane->msg_most;
		end = tx->pos + len;
	}
	*s = (struct mpib_step){ .from = e->addr + (tx->pos - e->pos),
				 .at = tx->pos - cts->pos,
				 .len = len,
				 .ends_message = end == total };
	s->rail[MPIB_RAIL_SUP] = mpib_split(f, total, tx->pos, len, NULL);
	s->rail[MPIB_RAIL_SOUT] = len - s->rail[MPIB_RAIL_SUP];
	s->data = rails_with_bytes(s->rail);
	if (end == part_end || s->ends_message) {
		s->imm = tx->mask | s->data;
		if (__builtin_expect(s->imm == 0, 0))
			s->imm = mpib_rail_bit(engine_conn_home(f));
	}
	s->how.plain = true;
	if (__builtin_expect(!s->imm || s->at || len > f->shard->ar_above ||
				     part_end < cts->total ||
				     lane->spread != MPIB_SPREAD_SPLIT ||
				     lane->imm_version == MPIB_IMM_V1,
			     0))
		s->how = step_not_plain(f, s->at, s->rail[MPIB_RAIL_SOUT],
					s->rail[MPIB_RAIL_SUP], s->imm,
					part_end < cts->total &&
						s->ends_message &&
						end == part_end);
}

struct mpib_record *mpib_step_record(struct engine_conn *f, uint32_t total,
				     uint32_t sout, uint32_t sup)
{
	struct mpib_record *rec = mpib_sender_record(f);

	rec->size[0] = total;
	rec->rail[MPIB_RAIL_SOUT] = f->tx.rail[MPIB_RAIL_SOUT] + sout;
	rec->rail[MPIB_RAIL_SUP] = f->tx.rail[MPIB_RAIL_SUP] + sup;
	return rec;
}

/* The bytes are posted: go on behind them. */
static void sender_advance(struct engine_conn *f, const struct send_range *e,
			   const struct mpib_step *s)
{
	struct mpib_sender *tx = &f->tx;
	uint32_t pos = tx->pos + s->len;

	if (s->imm) {
		tx->cts_next++;
		tx->mask = 0;
		memset(tx->rail, 0, sizeof(tx->rail));
	} else {
		tx->mask |= s->data;
		for (unsigned r = 0; r < MPIB_RAILS; r++)
			tx->rail[r] += s->rail[r];
	}
	/* Its reference on the region is the send op's now, or else one more. */
	if (pos == e->pos + e->len)
		mpib_sender_advance(f);
	else if (e->mr)
		mpib_mr_ref(e->mr);
	if (s->ends_message) {
		tx->msg++;
		tx->pos = 0;
		mpib_count_messages(f, 1);
	} else {
		tx->pos = pos;
		tx->req = e->req;
	}
}

/* mpib_fits_fn of a receive of one buffer: the next range of the send that it
 * has taken, or the first range of a send with its tag. */
static inline bool sender_fits(const struct engine_conn *f,
			       const struct send_range *e, int32_t tag)
{
	if (f->tx.pos)
		return e->req == f->tx.req;
	return e->tag == tag && e->pos == 0;
}

static uint64_t any_step(struct engine_conn *f, uint32_t total,
			 const struct send_range *e, const struct mpib_cts *cts,
			 const struct mpib_step *s)
{
	struct mpib_lane_qp *q[MPIB_RAILS] = { NULL };

	if (!mpib_sender_may_post(f, 1, s->data | s->imm, s->how.spread, 2,
				  s->rail, q))
		return 0;
	mpib_step_make(f, total, e, cts, s, q);
	sender_advance(f, e, s);
	return (uint64_t)s->len + 1;
}

uint64_t mpib_part_step(struct engine_conn *f)
{
	const struct send_range *e = mpib_sender_oldest(f);
	struct mpib_cts copy, *cts = &copy;
	uint32_t total;
	struct mpib_step s;

	if (!mpib_sender_next_cts(f, cts))
		return 0;
	if (cts->n > 1)
		return mpib_group_begin(f);
	if (!sender_fits(f, e, cts->tag) &&
	    !mpib_match(f, sender_fits, cts->tag)) {
		/* Else it has its send, the rest of which is to come. */
		if (!f->tx.pos)
			mpib_want_tell(&f->reply->want, f->ring.next, &cts->tag,
				       1);
		mpib_stall(f, MPIB_STALL_CTS);
		return 0;
	}
	total = mpib_total_of(f, e);
	if (total > cts->total)
		return sender_refuse(f, cts);
	if (f->tx.pos - e->pos > e->len || f->tx.pos - cts->pos > cts->len) {
		engine_conn_break(f, -EPROTO, "parts out of order");
		return 0;
	}
	sender_plan(f, total, e, cts, &s);
	return any_step(f, total, e, cts, &s);
}

uint64_t mpib_cut_step(struct engine_conn *f, uint32_t sup)
{
	const struct send_range *e = mpib_sender_oldest(f);
	struct mpib_cts cts;
	const struct mpib_step s = {
		.from = e->addr,
		.len = e->len,
		.rail = { e->len - sup, sup },
		.data = mpib_rail_bit(MPIB_RAIL_SOUT) |
			mpib_rail_bit(MPIB_RAIL_SUP),
		.imm = mpib_rail_bit(MPIB_RAIL_SOUT) |
		       mpib_rail_bit(MPIB_RAIL_SUP),
		.ends_message = true,
		.how = { .plain = true },
	};

	if (!mpib_sender_next_cts(f, &cts) || !mpib_step_is_plain(f, e, &cts))
		return 0;
	return any_step(f, e->len, e, &cts, &s);
}
