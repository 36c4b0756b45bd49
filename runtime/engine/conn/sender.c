/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending end of a connection: send ranges meet CTS. One step posts one
 * send op: the bytes that both the next CTS and the oldest fitting range cover.
 * Grouped receives are group.c's. Shard thread.
 */
#include <mpib/wire.h>
#include <string.h>

#include "engine/conn/clear.h"
#include "engine/conn/post.h"
#include "engine/lane/spread.h"
#include "engine/split/policy.h"

/* The CTS that the message under way has to use; skips CTS of messages that
 * ended before their last part. */
static inline bool next_cts(struct engine_conn *f, struct mpib_cts *cts)
{
	struct mpib_sender *tx = &f->tx;

	while (mpib_sender_cts(f, tx->cts_next, cts)) {
		int32_t ahead = (int32_t)(cts->msg - tx->msg);

		if (!mpib_cts_sane(cts) || ahead > 0) {
			engine_conn_break(
				f, -EPROTO,
				"peer sent a CTS that cannot be right");
			return false;
		}
		if (ahead == 0)
			return true;
		*mpib_ended_at(f, tx->cts_next++) = 0;
	}
	return false;
}

/*
 * Tell the receiver that its receive is too small: a record with -EMSGSIZE and
 * the message's size, by an IMM on the home rail. No byte of the message goes.
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
	uint32_t sizes[2] = { mpib_total_of(f, e), cts->total };
	struct mpib_record *rec;

	if (!mpib_sender_may_post(f, 1, mask, 0, 1, none, q))
		return false;

	rec = mpib_sender_record(f);
	rec->status = -EMSGSIZE;
	rec->size[0] = mpib_total_of(f, e);
	chain.rail = home;
	chain.q = q[home];
	mpib_chain_imm(f, &chain, mpib_sender_imm(f, home, mask, true, 0), rec);
	mpib_sender_stripe(f, mpib_sender_post(f, 0, none, mask, mask, 0),
			   &chain);

	engine_conn_finish(f, req, -EMSGSIZE, sizes, 2);
	mpib_match_forget(f, req);
	f->tx.cts_next++;
	f->tx.msg++;
	return true;
}

/* What one step for a receive of one buffer does. */
struct step {
	uint64_t from; /* where they lie */
	uint32_t at; /* offset from the address in the CTS */
	uint32_t len; /* bytes of this send op */
	uint32_t rail[MPIB_RAILS];
	uint8_t data; /* rails with bytes of this send op */
	uint8_t imm; /* rails that get an IMM; 0: the slot goes on */
	bool ends_message;
	struct step_how {
		bool plain; /* a WRITE_WITH_IMM of the bytes on each rail is all */
		bool record;
		bool apart; /* payload by WRITE, the IMM without it */
		uint8_t spread; /* rails whose part goes by more than one QP */
	} how;
};

static uint8_t rails_with_bytes(const uint32_t *rail)
{
	return (uint8_t)((rail[MPIB_RAIL_SOUT] > 0) << MPIB_RAIL_SOUT |
			 (rail[MPIB_RAIL_SUP] > 0) << MPIB_RAIL_SUP);
}

/* How the step goes that is not plain. whole: the message and the part end
 * together, before the buffer does. */
__attribute__((noinline)) static struct step_how
step_not_plain(struct engine_conn *f, uint32_t at, uint32_t sout, uint32_t sup,
	       uint8_t imm, bool whole)
{
	const uint32_t rail[MPIB_RAILS] = { sout, sup };
	const struct mpib_lane *lane = f->lane;
	uint32_t len = sout + sup;
	struct step_how how = { false };

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
			       const struct mpib_cts *cts, struct step *s)
{
	struct mpib_sender *tx = &f->tx;
	const struct mpib_lane *lane = f->lane;
	uint32_t part_end = cts->pos + cts->len;
	uint32_t ext_end = e->pos + e->len;
	uint32_t end = part_end < ext_end ? part_end : ext_end;
	uint32_t len = end - tx->pos;

	*s = (struct step){ .from = e->addr + (tx->pos - e->pos),
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

/* The record of a send op, by rail, of a message of total bytes. */
__attribute__((noinline)) static struct mpib_record *
make_record(struct engine_conn *f, uint32_t total, uint32_t sout, uint32_t sup)
{
	struct mpib_record *rec = mpib_sender_record(f);

	rec->size[0] = total;
	rec->rail[MPIB_RAIL_SOUT] = f->tx.rail[MPIB_RAIL_SOUT] + sout;
	rec->rail[MPIB_RAIL_SUP] = f->tx.rail[MPIB_RAIL_SUP] + sup;
	return rec;
}

/* The send op's chain on one rail. rec: the slot's record, of the leader. */
__attribute__((always_inline)) static inline void
sender_build(struct engine_conn *f, const struct send_range *e,
	     const struct mpib_cts *cts, const struct step *s,
	     struct mpib_chain *chain, const struct mpib_record *rec)
{
	unsigned r = chain->rail;
	/* SUP has the front, so that the cut is a multiple of 128. */
	uint32_t off = r == MPIB_RAIL_SUP ? 0 : s->rail[MPIB_RAIL_SUP];
	struct mpib_span span = {
		.mr = e->mr,
		.from = s->from + off,
		.to = cts->addr + s->at + off,
		.rkey = cts->rkey[r],
		.len = s->rail[r],
	};

	if (span.len && (s->how.apart || !s->imm)) {
		mpib_chain_write(f, chain, &span);
		span.len = 0;
	}
	if (s->imm)
		mpib_chain_last(
			f, chain, &span,
			mpib_sender_imm(f, r, s->imm, s->how.record, s->len),
			rec);
}

__attribute__((always_inline)) static inline void
sender_make(struct engine_conn *f, uint32_t total, const struct send_range *e,
	    const struct mpib_cts *cts, const struct step *s,
	    struct mpib_lane_qp **q)
{
	struct op_range *range = mpib_kept(mpib_sender_range(f, 0));
	struct mpib_record *rec = NULL;
	uint8_t stripes = s->data | s->imm;
	struct send_op *p;

	*range = (struct op_range){
		.mr = e->mr,
		.from = s->from,
		.at = s->at,
		.len = s->len,
		.sup = s->rail[MPIB_RAIL_SUP],
		.req = e->req,
	};
	if (s->how.record)
		rec = make_record(f, total, s->rail[MPIB_RAIL_SOUT],
				  s->rail[MPIB_RAIL_SUP]);
	p = mpib_sender_post(f, 1, s->rail, stripes, s->imm, s->how.spread);
#pragma GCC unroll 2
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		if (stripes & mpib_rail_bit(r)) {
			struct mpib_chain chain = { .rail = r, .q = q[r] };

			sender_build(f, e, cts, s, &chain, rec);
			mpib_sender_stripe(f, p, &chain);
			rec = NULL; /* the first rail leads */
		}
	}
	if (__builtin_expect(p->report, 0))
		mpib_sender_report(f, p);
}

/* A step that is not plain. */
__attribute__((noinline)) static void
make_not_plain(struct engine_conn *f, uint32_t total,
	       const struct send_range *e, const struct mpib_cts *cts,
	       const struct step *s, struct mpib_lane_qp **q)
{
	sender_make(f, total, e, cts, s, q);
}

/* sender_make() does less for a step that it sees to be plain. What has its address
 * elsewhere is a copy, for it is not kept in registers. */
static inline void sender_send(struct engine_conn *f, uint32_t total,
			       const struct send_range *e,
			       const struct mpib_cts *cts, const struct step *s,
			       struct mpib_lane_qp **q)
{
	if (__builtin_expect(s->how.plain && s->imm, 1)) {
		struct step plain = *s;

		plain.how = (struct step_how){ .plain = true };
		sender_make(f, total, e, cts, &plain, q);
	} else {
		struct mpib_lane_qp *qs[MPIB_RAILS] = { q[0], q[1] };
		const struct mpib_cts cleared = *cts;
		const struct step step = *s;

		make_not_plain(f, total, e, &cleared, &step, qs);
	}
}

/* The bytes are posted: go on behind them. */
static void sender_advance(struct engine_conn *f, const struct send_range *e,
			   const struct step *s)
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
		tx->promised = false;
		mpib_count_messages(f, 1);
	} else {
		tx->pos = pos;
		tx->req = e->req;
	}
}

/* A question has its receive: publish progress 0, on which the client stages
 * the bytes of its send; these are posted as they come. */
__attribute__((noinline)) static uint64_t sender_promise(struct engine_conn *f)
{
	f->tx.req = mpib_sender_oldest(f)->req;
	f->tx.promised = true;
	engine_conn_progress(f, f->tx.req, 0);
	mpib_sender_pop(f);
	return 1;
}

static inline uint64_t stream_step(struct engine_conn *f,
				   const struct mpib_cts *cts,
				   const struct send_range *e)
{
	struct mpib_lane_qp *q[MPIB_RAILS] = { NULL };
	uint32_t total = mpib_total_of(f, e);
	struct step s;

	if (total > cts->total)
		return sender_refuse(f, cts);
	if (__builtin_expect(mpib_is_question(f, e), 0))
		return sender_promise(f);
	if (f->tx.pos - e->pos > e->len || f->tx.pos - cts->pos > cts->len) {
		engine_conn_break(f, -EPROTO, "parts out of order");
		return 0;
	}
	sender_plan(f, total, e, cts, &s);
	if (!mpib_sender_may_post(f, 1, s.data | s.imm, s.how.spread, 2, s.rail,
				  q))
		return 0;
	sender_send(f, total, e, cts, &s, q);
	sender_advance(f, e, &s);
	return (uint64_t)s.len + 1;
}

/* mpib_fits_fn of a receive of one buffer: the next range of the send that it
 * has taken, or the first range of a send with its tag. */
static inline bool sender_fits(const struct engine_conn *f,
			       const struct send_range *e, int32_t tag)
{
	if (f->tx.pos || f->tx.promised)
		return e->req == f->tx.req;
	return e->tag == tag && e->pos == 0;
}

/* Post at most one send op: bytes posted + 1, or 0 when nothing can go now. */
static inline uint64_t sender_step(struct engine_conn *f)
{
	const struct send_range *e;
	struct mpib_cts cts;

	/* Also without a queued range: the group may lack room only. */
	if (f->tx.group.n)
		return mpib_group_step(f);
	if (!mpib_sender_has_work(f))
		return 0;
	if (!next_cts(f, &cts)) {
		mpib_stall(f, MPIB_STALL_CTS);
		return 0;
	}
	if (cts.n > 1)
		return mpib_group_begin(f);
	e = mpib_kept(mpib_sender_oldest(f));
	if (__builtin_expect(!sender_fits(f, e, cts.tag), 0) &&
	    !mpib_match(f, sender_fits, cts.tag)) {
		mpib_stall(f, MPIB_STALL_CTS);
		return 0;
	}
	return stream_step(f, &cts, e);
}

int mpib_sender_run(struct engine_conn *f, struct mpib_drr_run *run)
{
	uint64_t n = 1;

	f->stopped_by = MPIB_DRR_NONE;
	/* A step neither loses anything nor stops the connection, and one that
	 * breaks it is the last: that is asked once a run. */
	while (__builtin_expect(n && f->tx.lost, 0)) {
		n = mpib_replay_step(f);
		if (n && !mpib_drr_pay(run, n - 1))
			return MPIB_DRR_RAN;
	}
	if (f->broken || f->stopping)
		n = 0;
	while (n) {
		n = sender_step(f);
		if (n && !mpib_drr_pay(run, n - 1))
			return MPIB_DRR_RAN;
	}
	if (!mpib_sender_has_work(f) && f->tx.group.n == 0 && f->tx.lost == 0)
		return MPIB_DRR_IDLE;
	return f->stopped_by;
}
