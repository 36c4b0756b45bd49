/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/flow/chain.h"

#include <endian.h>

#include "engine/measure/count.h"

static struct ibv_send_wr *add(struct mpib_chain *c, uint64_t from,
			       uint32_t len, uint32_t lkey)
{
	struct ibv_sge *sge = &c->sge[c->n];
	struct ibv_send_wr *wr = &c->wr[c->n++];

	*sge = (struct ibv_sge){ .addr = from, .length = len, .lkey = lkey };
	*wr = (struct ibv_send_wr){ .opcode = IBV_WR_RDMA_WRITE,
				    .sg_list = sge,
				    .num_sge = len ? 1 : 0 };
	return wr;
}

void mpib_chain_write(struct mpib_flow *f, struct mpib_chain *c, unsigned rail,
		      const struct mpib_span *span)
{
	struct ibv_send_wr *wr = add(c, span->from, span->len,
				     span->len ? span->mr->mr[rail]->lkey : 0);

	(void)f;
	wr->wr.rdma.remote_addr = span->to;
	wr->wr.rdma.rkey = span->rkey;
	c->bytes += span->len;
}

static struct ibv_send_wr *add_record(struct mpib_flow *f, struct mpib_chain *c,
				      unsigned rail,
				      const struct mpib_record *record)
{
	const struct mpib_record *table = f->tables.out;
	uint64_t off = (uint64_t)(record - table) * sizeof(*record);
	struct ibv_send_wr *wr = add(c, (uint64_t)(uintptr_t)record,
				     sizeof(*record), f->tables.lkey[rail]);

	wr->wr.rdma.remote_addr = f->remote.addr + off;
	wr->wr.rdma.rkey = f->remote.rkey[rail];
	if (f->shard->rail[rail].port.max_inline >= sizeof(*record))
		wr->send_flags |= IBV_SEND_INLINE;
	return wr;
}

void mpib_chain_imm(struct mpib_flow *f, struct mpib_chain *c, unsigned rail,
		    uint32_t imm, struct mpib_record *record)
{
	struct ibv_send_wr *wr;

	if (record) {
		wr = add_record(f, c, rail, record);
	} else {
		wr = add(c, 0, 0, 0);
		wr->wr.rdma.remote_addr = f->remote.addr;
		wr->wr.rdma.rkey = f->remote.rkey[rail];
	}
	wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr->imm_data = htobe32(imm);
}

void mpib_chain_last(struct mpib_flow *f, struct mpib_chain *c, unsigned rail,
		     const struct mpib_span *span, uint32_t imm,
		     struct mpib_record *record)
{
	struct ibv_send_wr *wr;

	if (span->len == 0) {
		mpib_chain_imm(f, c, rail, imm, record);
		return;
	}
	if (record)
		add_record(f, c, rail, record);
	mpib_chain_write(f, c, rail, span);
	wr = &c->wr[c->n - 1];
	wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr->imm_data = htobe32(imm);
}

void mpib_chain_post(struct mpib_flow *f, struct mpib_chain *c,
		     struct mpib_lane_qp *q, uint32_t piece)
{
	unsigned n = c->n;

	for (unsigned i = 0; i < n; i++)
		c->wr[i].wr_id = mpib_wr_tag(MPIB_WR_QUIET, f->id, piece);
	c->wr[n - 1].wr_id = mpib_wr_tag(MPIB_WR_PIECE, f->id, piece);
	c->wr[n - 1].send_flags |= IBV_SEND_SIGNALED;

	mpib_count_post(f, q, n, c->bytes,
			c->wr[n - 1].opcode == IBV_WR_RDMA_WRITE_WITH_IMM);
	mpib_qp_post(q, c->wr, n);
}
