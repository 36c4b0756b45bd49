/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the engine: the WRs of one rail for one send op, posted in one go.
 * Only the last is signalled.
 */
#ifndef MPIB_ENGINE_CHAIN_H
#define MPIB_ENGINE_CHAIN_H

#include "engine/conn/conn.h"

#define MPIB_CHAIN_MAX (MPIB_GROUP_MAX + 2)
/* Both stripes of a group on one QP, and the IMM. */
#define MPIB_REPLAY_WRS (2 * MPIB_GROUP_MAX + 1)

struct mpib_chain {
	struct ibv_send_wr wr[MPIB_CHAIN_MAX];
	struct ibv_sge sge[MPIB_CHAIN_MAX];
	unsigned n;
	uint32_t bytes; /* payload */
};

/* Nothing to post on any rail, yet. WRs are written whole when they are added:
 * clearing all their places would cost more than the rest of a post. */
static inline void mpib_chains_begin(struct mpib_chain chain[MPIB_RAILS])
{
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		chain[r].n = chain[r].bytes = 0;
}

/* Bytes of a region and where they go. len 0: nothing. */
struct mpib_span {
	const struct mpib_mr *mr;
	uint64_t from, to;
	uint32_t rkey;
	uint32_t len;
};

/* RDMA WRITE of a span. */
void mpib_chain_write(struct engine_conn *f, struct mpib_chain *c,
		      unsigned rail, const struct mpib_span *span);
/* The last of a rail's share: the span rides on the IMM; the record, if any,
 * is written ahead of it, or by the IMM itself when the span is empty. */
void mpib_chain_last(struct engine_conn *f, struct mpib_chain *c, unsigned rail,
		     const struct mpib_span *span, uint32_t imm,
		     struct mpib_record *record);
/* An IMM that carries the record, or nothing when record is NULL. */
void mpib_chain_imm(struct engine_conn *f, struct mpib_chain *c, unsigned rail,
		    uint32_t imm, struct mpib_record *record);
void mpib_chain_post(struct engine_conn *f, struct mpib_chain *c,
		     struct mpib_lane_qp *q, uint32_t op);
/* The same over several QPs of q's rail, see lane/spread.h. */
void mpib_chain_spread(struct engine_conn *f, const struct mpib_chain *c,
		       struct mpib_lane_qp *q, uint32_t op);
/* Rails whose chain has to be spread for what it looks like. */
uint8_t mpib_chain_bare(const struct mpib_lane *lane,
			const struct mpib_chain *chain);

#endif
