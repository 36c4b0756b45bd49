/* SPDX-License-Identifier: Apache-2.0 */
/* The chain of WRs that one rail carries for one send op: built WR by WR, in
 * WRs of the shard's pool, then posted at once. Before building one, the caller
 * checks for room by mpib_sender_may_post(), or names its QP. Only the last WR
 * is signalled. Shard thread. */
#ifndef MPIB_ENGINE_CONN_CHAIN_H
#define MPIB_ENGINE_CONN_CHAIN_H

#include <endian.h>

#include "engine/kept.h"
#include "engine/measure/count.h"

#define MPIB_CHAIN_MAX (MPIB_GROUP_MAX + 2)
/* Most WRs of a replay: both stripes of a group on one QP, and the IMM. */
#define MPIB_REPLAY_WRS (2 * MPIB_GROUP_MAX + 1)

struct mpib_chain {
	struct mpib_wr_chain wrs;
	uint32_t bytes; /* payload */
	bool imm; /* the last WR is a WRITE_WITH_IMM */
	unsigned rail;
	struct mpib_lane_qp *q; /* QP that carries the chain, or its last WR */
};

/* Bytes of a local region and their destination at the peer. len 0: none. */
struct mpib_span {
	const struct mpib_mr *mr;
	uint64_t from, to;
	uint32_t rkey;
	uint32_t len;
};

/* Return the bytes of stripe k of a range, and where they go by rail r. SUP has
 * the front, so that the cut is a multiple of 128. */
static inline uint32_t mpib_range_bytes(const struct op_range *s, unsigned k)
{
	return k == MPIB_RAIL_SUP ? s->sup : s->len - s->sup;
}

static inline struct mpib_span mpib_range_span(const struct op_range *s,
					       unsigned k,
					       const struct mpib_cts *cts,
					       unsigned r)
{
	uint32_t off = k == MPIB_RAIL_SUP ? 0 : s->sup;

	return (struct mpib_span){
		.mr = s->mr,
		.from = s->from + off,
		.to = cts->addr + s->at + off,
		.rkey = cts->rkey[r],
		.len = mpib_range_bytes(s, k),
	};
}

/* Add an RDMA WRITE of the span, which must have bytes. */
__attribute__((always_inline)) static inline struct ibv_send_wr *
mpib_chain_write(struct engine_conn *f, struct mpib_chain *c,
		 const struct mpib_span *span)
{
	struct mpib_wr *w = mpib_wr_take(&f->shard->wrs);

	w->sge[0] = (struct ibv_sge){ .addr = span->from,
				      .length = span->len,
				      .lkey = span->mr->lkey[c->rail] };
	w->wr.opcode = IBV_WR_RDMA_WRITE;
	w->wr.send_flags = 0;
	w->wr.wr.rdma.remote_addr = span->to;
	w->wr.wr.rdma.rkey = span->rkey;
	c->bytes += span->len;
	mpib_wr_chain_add(&c->wrs, w);
	return &w->wr;
}

/* Return a WRITE of the record to the peer's table; NULL: without a record. */
struct mpib_wr *mpib_chain_record(struct engine_conn *f, unsigned rail,
				  const struct mpib_record *record);

/* Add an IMM whose payload is the record; none when record is NULL. */
__attribute__((always_inline)) static inline void
mpib_chain_imm(struct engine_conn *f, struct mpib_chain *c, uint32_t imm,
	       const struct mpib_record *record)
{
	struct mpib_wr *w = mpib_chain_record(f, c->rail, record);

	w->wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	w->wr.imm_data = htobe32(imm);
	c->imm = true;
	mpib_wr_chain_add(&c->wrs, w);
}

/* Add the WRITE_WITH_IMM that ends the slot on this rail, with the span as its
 * payload. The record, if any, is a WRITE ahead of the IMM, or the payload of
 * the IMM when the span is empty. */
__attribute__((always_inline)) static inline void
mpib_chain_last(struct engine_conn *f, struct mpib_chain *c,
		const struct mpib_span *span, uint32_t imm,
		const struct mpib_record *record)
{
	struct ibv_send_wr *wr;

	if (span->len == 0) {
		mpib_chain_imm(f, c, imm, record);
		return;
	}
	if (record)
		mpib_wr_chain_add(&c->wrs,
				  mpib_chain_record(f, c->rail, record));
	wr = mpib_chain_write(f, c, span);
	c->imm = true;
	wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr->imm_data = htobe32(imm);
}

/* Post the chain to its QP. last: wr_id of its last WR, by mpib_wr_tag(); the
 * WR is signalled unless its kind is UNSIGNALED. */
__attribute__((always_inline)) static inline void
mpib_chain_post(struct engine_conn *f, struct mpib_chain *c, uint64_t last)
{
	mpib_count_post(f, c->q, c->rail, c->wrs.n, c->bytes, c->imm);
	mpib_qp_post(c->q, c->rail, &c->wrs, f->id, last);
}
/* Post the chain over several QPs of its rail, see lane/spread.h. */
void mpib_chain_spread(struct engine_conn *f, const struct mpib_chain *c,
		       uint32_t op);
/* Return the WRs of a chain that is not posted to the pool. */
void mpib_chain_drop(struct engine_conn *f, const struct mpib_chain *c);
/* On a dqplb lane: return whether the IMM has the length by which the receiver
 * recognises an IMM that waits. The chain must then be spread. */
bool mpib_chain_is_bare(const struct mpib_lane *lane,
			const struct mpib_chain *c);

/* False: an earlier connection in the order of the DRR classes has the rail's
 * window, or room on the lane, reserved. Noted as a stall. */
bool mpib_chain_in_turn(struct engine_conn *f, unsigned rail, uint32_t bytes);

/* Return whether rail r has room now for a chain of wrs WRs with this many
 * bytes. If not, the shortage is noted as a stall. */
bool mpib_chain_room(struct engine_conn *f, unsigned r, uint8_t spread,
		     unsigned wrs, uint32_t bytes);

/* Return whether the lane's window on the rail has room for these bytes, or is
 * empty. */
static inline bool mpib_chain_window(const struct engine_conn *f, unsigned rail,
				     uint32_t bytes)
{
	uint64_t inflight = f->lane->track[rail].inflight;

	return inflight == 0 ||
	       inflight + bytes <=
		       __atomic_load_n(&f->shard->engine->cfg.lane_window,
				       __ATOMIC_RELAXED);
}

/* Return whether rail r has room for a chain of wrs WRs with this many bytes:
 * *q is the chain's QP. If not, the shortage is noted as a stall. split: the
 * lane is known to have that mode. */
__attribute__((always_inline)) static inline bool
mpib_chain_may_post(struct engine_conn *f, unsigned r, uint8_t spread,
		    unsigned wrs, uint32_t bytes, bool split,
		    struct mpib_lane_qp **q)
{
	*q = mpib_kept(engine_conn_qp(f, r, f->tx.cts_next));
	if (f->shard->contended && !mpib_chain_in_turn(f, r, bytes))
		return false;
	/* Usually it fits. */
	return ((split || f->lane->spread == MPIB_SPREAD_SPLIT) &&
		mpib_qp_fits(*q, r, wrs) && mpib_chain_window(f, r, bytes)) ||
	       mpib_chain_room(f, r, spread, wrs, bytes);
}

/* Return whether the rails of mask may be posted to, and a send op with this
 * many ranges is free. If none is free, that is noted as a stall. */
static inline bool mpib_sender_may_begin(struct engine_conn *f, unsigned ranges,
					 uint8_t mask)
{
	if (mask & ~f->lane->open)
		return false;
	if (send_op_free(f, ranges))
		return true;
	mpib_stall(f, MPIB_STALL_SLOT);
	return false;
}

/* Check both, for each rail of mask, with bytes[r] bytes. */
__attribute__((always_inline)) static inline bool
mpib_sender_may_post(struct engine_conn *f, unsigned ranges, uint8_t mask,
		     uint8_t spread, unsigned wrs, const uint32_t *bytes,
		     struct mpib_lane_qp **q)
{
	if (!mpib_sender_may_begin(f, ranges, mask))
		return false;
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		if (mask & mpib_rail_bit(r) &&
		    !mpib_chain_may_post(f, r, spread, wrs, bytes[r], false,
					 &q[r]))
			return false;
	}
	return true;
}

/* Posting a send op. The caller checks mpib_sender_may_post(), fills the ranges
 * where they remain until the send op ends, adds WRs to its chains and calls
 * mpib_sender_post() to note what is in flight. Shard thread. */

/* Return range i of the send op that is posted next; may_post() has found room.
 * The range that is written there owns a reference to its region. */
static inline struct op_range *mpib_sender_range(struct engine_conn *f,
						 unsigned i)
{
	return &f->tx.op_range[(f->tx.op_range_head + i) % SEND_OP_RANGES];
}

/* Return the record of the send op that is posted next. */
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
	if (f->lane->imm_version == MPIB_IMM_V1)
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

/* True: the range's request has a report. */
static inline bool post_range(struct engine_conn *f, const struct op_range *s)
{
	struct engine_request *r = mpib_kept(&f->req[s->req]);

	if (!r->posted) {
		mpib_record(f, MPIB_TIME_SUBMIT_POST, f->shard->now - r->since);
		/* Relaxed: it is read only after this process has ended, and
		 * the call that posts the WRs orders it before them. */
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
 * spread: rails whose chain uses several QPs. */
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
	p->first = tx->op_range_head;
	for (unsigned i = 0; i < n; i++)
		report |= post_range(f, mpib_sender_range(f, i));
	p->report = report;
	tx->op_range_head += send_op_takes(n);
	if (imm)
		post_note_imm(f, imm);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		p->stripe[r].posted = p->stripe[r].bytes = 0;
	return p;
}

/* send_op.c: post the chain on a lane that spreads. False: post it like any
 * other. */
bool mpib_sender_spread(struct engine_conn *f, struct send_op *p,
			const struct mpib_chain *chain, uint32_t number);

/* Return the number of the send op that is posted next. */
static inline uint32_t mpib_sender_number(const struct engine_conn *f)
{
	return f->tx.op_head % SEND_OPS;
}

/* Post the chain of one rail of the newest send op, which has this number.
 * split: the lane is known to have that mode. */
__attribute__((always_inline)) static inline void
mpib_sender_stripe(struct engine_conn *f, struct send_op *p, uint32_t number,
		   struct mpib_chain *chain, bool split)
{
	struct mpib_lane *lane = f->lane;
	unsigned r = chain->rail;

	mpib_tracker_post(&lane->track[r], &p->stripe[r], chain->bytes,
			  f->shard->now);
	if (!split && lane->spread != MPIB_SPREAD_SPLIT) {
		/* Copy it: the compiler keeps no variable in registers whose
		 * address is used elsewhere. */
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

/* send_op.c: note that all chains of a send op with a report are posted. */
void mpib_sender_report(struct engine_conn *f, const struct send_op *p);

#endif
