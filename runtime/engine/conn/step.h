/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step of the sending end: one send op for a receive of one buffer. What is alike for
 * all steps is in line here, so that sender.c has it for those that are plain, and parts.c
 * for the others. Shard thread.
 */
#ifndef MPIB_ENGINE_CONN_STEP_H
#define MPIB_ENGINE_CONN_STEP_H

#include "engine/conn/clear.h"
#include "engine/conn/post.h"

/* What one step for a receive of one buffer does. */
struct mpib_step {
	uint64_t from; /* where they lie */
	uint32_t at; /* offset from the address in the CTS */
	uint32_t len; /* bytes of this send op */
	uint32_t rail[MPIB_RAILS];
	uint8_t data; /* rails with bytes of this send op */
	uint8_t imm; /* rails that get an IMM; 0: the slot goes on */
	bool ends_message;
	struct mpib_step_how {
		bool plain; /* a WRITE_WITH_IMM of the bytes on each rail is all */
		bool record;
		bool apart; /* payload by WRITE, the IMM without it */
		uint8_t spread; /* rails whose part goes by more than one QP */
	} how;
};

/* The oldest range is a send whose bytes go as the payload of its IMMs and into one
 * buffer, which it may fill. Mostly it is: there are no parts then to fit to each
 * other. */
static inline bool mpib_step_is_plain(const struct engine_conn *f,
				      const struct send_range *e,
				      const struct mpib_cts *cts)
{
	return cts->n == 1 && e->tag == cts->tag &&
	       e->len == mpib_total_of(f, e) && e->len <= cts->total &&
	       cts->len == cts->total && e->len - 1 < f->lane->plain_most &&
	       !f->tx.pos && f->lane->spread == MPIB_SPREAD_SPLIT &&
	       f->lane->imm_version != MPIB_IMM_V1;
}

/* parts.c: the record of a send op, by rail, of a message of total bytes. */
struct mpib_record *mpib_step_record(struct engine_conn *f, uint32_t total,
				     uint32_t sout, uint32_t sup);

/* The send op's chain on one rail. rec: the slot's record, of the leader. */
__attribute__((always_inline)) static inline void
mpib_step_build(struct engine_conn *f, const struct send_range *e,
		const struct mpib_cts *cts, const struct mpib_step *s,
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
		mpib_chain_last(f, chain, &span,
				s->how.plain ? mpib_sender_imm_v2(f, r, s->imm)
					     : mpib_sender_imm(f, r, s->imm,
							       s->how.record,
							       s->len),
				rec);
}

/* Post the step, for which there is room: q[r] is the QP of its chain on rail r. */
__attribute__((always_inline)) static inline void
mpib_step_make(struct engine_conn *f, uint32_t total,
	       const struct send_range *e, const struct mpib_cts *cts,
	       const struct mpib_step *s, struct mpib_lane_qp **q)
{
	struct op_range *range = mpib_kept(mpib_sender_range(f, 0));
	struct mpib_record *rec = NULL;
	uint32_t number = mpib_sender_number(f);
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
		rec = mpib_step_record(f, total, s->rail[MPIB_RAIL_SOUT],
				       s->rail[MPIB_RAIL_SUP]);
	p = mpib_sender_post(f, 1, s->rail, stripes, s->imm, s->how.spread);
#pragma GCC unroll 2
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		if (stripes & mpib_rail_bit(r)) {
			struct mpib_chain chain = { .rail = r, .q = q[r] };

			mpib_step_build(f, e, cts, s, &chain, rec);
			mpib_sender_stripe(f, p, number, &chain, s->how.plain);
			rec = NULL; /* the first rail leads */
		}
	}
	if (__builtin_expect(p->report, 0))
		mpib_sender_report(f, p);
}

/* parts.c, for sender_step(): bytes posted + 1, or 0 when nothing can go now. */
/* A step that may not be plain. */
uint64_t mpib_part_step(struct engine_conn *f);
/* The step is plain, and by both rails: sup bytes by SUP. */
uint64_t mpib_cut_step(struct engine_conn *f, uint32_t sup);

#endif
