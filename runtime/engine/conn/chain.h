/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chain of WRs that one rail carries for one send op: built WR by WR, in
 * WRs of the shard's pool, then posted at once. Whoever builds one has asked for
 * room for it. Only the last WR is signalled. Shard thread.
 */
#ifndef MPIB_ENGINE_CHAIN_H
#define MPIB_ENGINE_CHAIN_H

#include "engine/conn/conn.h"

#define MPIB_CHAIN_MAX (MPIB_GROUP_MAX + 2)
/* A replay has both stripes of a group on one QP, and the IMM. */
#define MPIB_REPLAY_WRS (2 * MPIB_GROUP_MAX + 1)

struct mpib_chain {
	struct mpib_wr_chain wrs;
	uint32_t bytes; /* payload */
};

static inline bool mpib_chain_has_imm(const struct mpib_chain *c)
{
	return c->wrs.last->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* Bytes of a local region and where at the peer they go. len 0: none. */
struct mpib_span {
	const struct mpib_mr *mr;
	uint64_t from, to;
	uint32_t rkey;
	uint32_t len;
};

/* Bytes of stripe k of a range, and where they go by rail r: SUP has the front, so
 * that the cut is a multiple of 128. */
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

/* Add an RDMA WRITE of the span. */
void mpib_chain_write(struct engine_conn *f, struct mpib_chain *c,
		      unsigned rail, const struct mpib_span *span);
/* Add the WRITE_WITH_IMM that ends the slot on this rail, with the span as its
 * payload. The record, if any, is a WRITE ahead of the IMM, or the payload of
 * the IMM when the span is empty. */
void mpib_chain_last(struct engine_conn *f, struct mpib_chain *c, unsigned rail,
		     const struct mpib_span *span, uint32_t imm,
		     struct mpib_record *record);
/* Add an IMM whose payload is the record; none when record is NULL. */
void mpib_chain_imm(struct engine_conn *f, struct mpib_chain *c, unsigned rail,
		    uint32_t imm, struct mpib_record *record);
/* Post the chain to one QP. last: wr_id of its last WR, by mpib_wr_tag(), which is
 * signalled unless that is of kind UNSIGNALED. */
void mpib_chain_post(struct engine_conn *f, struct mpib_chain *c,
		     struct mpib_lane_qp *q, uint64_t last);
/* Post the chain over several QPs of q's rail, see lane/spread.h. */
void mpib_chain_spread(struct engine_conn *f, struct mpib_chain *c,
		       struct mpib_lane_qp *q, uint32_t op);
/* The chain is not posted: its WRs go back to the pool. */
void mpib_chain_drop(struct engine_conn *f, struct mpib_chain *c);
/* On a dqplb lane: rails whose IMM has the length by which the receiver knows
 * an IMM that waits, so that the chain has to be spread. */
uint8_t mpib_chain_bare(const struct mpib_lane *lane,
			const struct mpib_chain *chain);

#endif
