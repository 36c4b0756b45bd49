/* SPDX-License-Identifier: Apache-2.0 */
/* The chain of WRs that one rail carries for one send op. The chain is built
 * one WR at a time, from the shard's pool, and then posted as a whole. The
 * caller has checked for room. Only the last WR is signalled. Functions that
 * are not inline are in send_op.c. Shard thread. */
#ifndef MPIB_ENGINE_CONN_CHAIN_H
#define MPIB_ENGINE_CONN_CHAIN_H

#include <endian.h>

#include "engine/kept.h"
#include "engine/measure/count.h"

#define MPIB_CHAIN_MAX (MPIB_GROUP_MAX + 2)
/* Maximum of WRs of a replay: both stripes of a group on one QP, and the
 * IMM. */
#define MPIB_REPLAY_WRS (2 * MPIB_GROUP_MAX + 1)

struct mpib_chain {
	struct mpib_wr_chain wrs;
	uint32_t bytes; /* payload */
	bool imm; /* the last WR is a WRITE_WITH_IMM */
	unsigned rail;
	/* QP that carries the chain, or at least its last WR */
	struct mpib_lane_qp *q;
};

/* A range of a local region, and its destination at the peer. `len` 0: no
 * bytes. */
struct mpib_span {
	const struct mpib_mr *mr;
	uint64_t from, to;
	uint32_t rkey;
	uint32_t len;
};

/* mpib_range_bytes() returns the size of stripe k of a range. mpib_range_span()
 * returns the stripe and its destination, for a stripe that rail r carries. SUP
 * carries the first bytes, so that the cut is a multiple of 128. */
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

/* Add an RDMA WRITE of the span, which must not be empty. */
static inline struct ibv_send_wr *mpib_chain_write(struct engine_conn *f,
						   struct mpib_chain *c,
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

/* Return a WRITE of the record to the peer's table. If `record` is NULL, the
 * WRITE has no payload. */
struct mpib_wr *mpib_chain_record(struct engine_conn *f, unsigned rail,
				  const struct mpib_record *record);

/* Add an IMM whose payload is the record. If `record` is NULL, the IMM has no
 * payload. */
static inline void mpib_chain_imm(struct engine_conn *f, struct mpib_chain *c,
				  uint32_t imm,
				  const struct mpib_record *record)
{
	struct mpib_wr *w = mpib_chain_record(f, c->rail, record);

	w->wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	w->wr.imm_data = htobe32(imm);
	c->imm = true;
	mpib_wr_chain_add(&c->wrs, w);
}

/* Add the WRITE_WITH_IMM that ends the slot on this rail. Its payload is the
 * span. If there is also a record, an earlier WRITE of the chain writes the
 * record. If the span is empty, the payload is the record. */
static inline void mpib_chain_last(struct engine_conn *f, struct mpib_chain *c,
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

/* Post the chain to its QP. `last` is the wr_id of the last WR, made by
 * mpib_wr_tag(). That WR is signalled unless its kind is UNSIGNALED. */
__attribute__((always_inline)) static inline void
mpib_chain_post(struct engine_conn *f, struct mpib_chain *c, uint64_t last)
{
	mpib_count_post(f, c->q, c->rail, c->wrs.n, c->bytes, c->imm);
	mpib_qp_post(c->q, c->rail, &c->wrs, f->id, last);
}
/* Return the WRs of an unposted chain to the pool. */
void mpib_chain_drop(struct engine_conn *f, const struct mpib_chain *c);
/* On a lane that spreads stripes, post the chain of a stripe of send op `p`
 * over several QPs of its rail. False: the chain is not spread, and the caller
 * must post it. */
bool mpib_sender_spread(struct engine_conn *f, struct send_op *p,
			struct mpib_chain chain, uint32_t number);
/* For each request of the send op that has a report, record the bytes posted on
 * each rail. Call this after all chains of the send op are posted. */
void mpib_sender_report(struct engine_conn *f, const struct send_op *p);

#endif
