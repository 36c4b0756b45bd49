/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posting a send op. Whoever makes one asks mpib_sender_may_post(), fills its
 * ranges where they stay until it is over, adds WRs to its chains and has
 * mpib_sender_post() note what is in flight. Shard thread.
 */
#ifndef MPIB_ENGINE_CONN_POST_H
#define MPIB_ENGINE_CONN_POST_H

#include "base/kept.h"
#include "engine/conn/chain.h"

/* Range i of the send op that is posted next; may_post() has found room. What
 * is written there owns a reference on its region. */
static inline struct op_range *mpib_sender_range(struct engine_conn *f,
						 unsigned i)
{
	return &f->tx.share[(f->tx.share_head + i) % SEND_SHARES];
}

/* The record of the send op that is posted next. */
struct mpib_record *mpib_sender_record(struct engine_conn *f);

static inline uint32_t mpib_sender_imm_v2(const struct engine_conn *f,
					  unsigned rail, uint8_t mask)
{
	return mpib_imm_v2((uint32_t)(f->tx.cts_next % MPIB_SLOTS), mask,
			   f->lane->epoch[rail], f->remote.id);
}

static inline uint32_t mpib_sender_imm(struct engine_conn *f, unsigned rail,
				       uint8_t mask, bool record,
				       uint32_t bytes)
{
	if (__builtin_expect(f->lane->imm_version == MPIB_IMM_V1, 0))
		return mpib_imm_v1(
			(uint32_t)(f->tx.cts_next % MPIB_SLOTS), mask,
			record ? MPIB_IMM_SIZEQ_SENTINEL : mpib_size_q(bytes));
	return mpib_sender_imm_v2(f, rail, mask);
}

static inline void post_note_imm(struct engine_conn *f, uint8_t imm)
{
	/* At first stripe k is carried by rail k. */
	*mpib_ended_at(f, f->tx.cts_next) =
		imm | (uint8_t)(1u << MPIB_RAIL_SUP << MPIB_RAILS) |
		(uint8_t)(f->tx.released ? MPIB_ENDED_RELEASED : 0);
	f->tx.released = false;
}

/* True: the range's request is reported. */
static inline bool post_range(struct engine_conn *f, const struct op_range *s)
{
	struct engine_request *r = mpib_kept(&f->req[s->req]);

	if (!r->posted) {
		mpib_record(f, MPIB_TIME_SUBMIT_POST, f->shard->now - r->since);
		/* Relaxed: it is read when this process has ended, and the call
		 * that posts the WRs orders it before them. */
		atomic_store_explicit(
			&f->answer[s->req],
			mpib_answer(r->gen, r->refused, f->tx.msg),
			memory_order_relaxed);
	}
	r->posted = true;
	return r->report;
}

/* Begin a send op of n ranges with bytes[r] bytes by rail. stripes: rails that
 * get a chain, by mpib_sender_stripe(); imm: rails whose chain ends the slot;
 * spread: rails whose chain goes by more than one QP. */
__attribute__((always_inline)) static inline struct send_op *
mpib_sender_post(struct engine_conn *f, unsigned n, const uint32_t *bytes,
		 uint8_t stripes, uint8_t imm, uint8_t spread)
{
	struct mpib_sender *tx = &f->tx;
	struct send_op *p = mpib_kept(send_op_at(f, tx->op_head++));
	bool report = false;

	mpib_unstall(f);
	p->before = mpib_adapt_posted(&f->lane->adapt, bytes[MPIB_RAIL_SOUT],
				      bytes[MPIB_RAIL_SUP]);
	mpib_stripes_post(&p->c, stripes, imm);
	p->c.spread = spread;
	tx->spread = imm ? 0 : tx->spread | spread;
	p->slot = tx->cts_next;
	p->n = (uint8_t)n;
	p->first = tx->share_head;
	for (unsigned i = 0; i < n; i++)
		report |= post_range(f, mpib_sender_range(f, i));
	p->report = report;
	tx->share_head += send_op_takes(n);
	if (imm)
		post_note_imm(f, imm);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		p->stripe[r].posted = p->stripe[r].bytes = 0;
	return p;
}

/* send_op.c: the chain of a lane that spreads. False: it is to be posted like any
 * other. */
bool mpib_sender_spread(struct engine_conn *f, struct send_op *p,
			const struct mpib_chain *chain, uint32_t number);

/* The number of the send op that is posted next. */
static inline uint32_t mpib_sender_number(const struct engine_conn *f)
{
	return f->tx.op_head % SEND_OPS;
}

/* Post the chain of one rail of the send op of that number, the newest. split: that is
 * known to be the lane's mode. */
__attribute__((always_inline)) static inline void
mpib_sender_stripe(struct engine_conn *f, struct send_op *p, uint32_t number,
		   struct mpib_chain *chain, bool split)
{
	struct mpib_lane *lane = f->lane;
	unsigned r = chain->rail;

	mpib_tracker_post(&lane->track[r], &p->stripe[r], chain->bytes,
			  f->shard->now);
	if (__builtin_expect(!split && lane->spread != MPIB_SPREAD_SPLIT, 0)) {
		/* By a copy: what has its address elsewhere is no longer kept
		 * in registers. */
		struct mpib_chain copy = {
			.wrs = { chain->wrs.first, chain->wrs.last,
				 chain->wrs.n },
			.bytes = chain->bytes,
			.imm = chain->imm,
			.rail = r,
			.q = chain->q,
		};

		if (mpib_sender_spread(f, p, &copy, number))
			return;
	}
	mpib_chain_post(f, chain, mpib_wr_tag(MPIB_WR_OP, f->id, number));
}

/* send_op.c: all chains of a send op with report are posted. */
void mpib_sender_report(struct engine_conn *f, const struct send_op *p);

#endif
