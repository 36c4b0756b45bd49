/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim_hca.h"
#include "sim_task.h"

static bool known(enum ibv_wr_opcode op)
{
	return op == IBV_WR_RDMA_WRITE || op == IBV_WR_RDMA_WRITE_WITH_IMM ||
	       op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM ||
	       op == IBV_WR_RDMA_READ;
}

enum ibv_wc_opcode sim_wc_op(enum ibv_wr_opcode op)
{
	if (op == IBV_WR_RDMA_READ)
		return IBV_WC_RDMA_READ;
	return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM
		       ? IBV_WC_SEND
		       : IBV_WC_RDMA_WRITE;
}

static int copy_inline(const struct sim_qp *qp, struct sim_wqe *w)
{
	size_t at = 0;

	if (w->len > qp->cap.max_inline_data || w->op == IBV_WR_RDMA_READ)
		return EINVAL;
	w->copied = malloc(w->len + 1u);
	if (!w->copied)
		abort();
	for (int i = 0; i < w->sges; i++) {
		if (w->sge[i].length)
			memcpy(w->copied + at,
			       (const void *)(uintptr_t)w->sge[i].addr,
			       w->sge[i].length);
		at += w->sge[i].length;
	}
	return 0;
}

static int fill(const struct sim_qp *qp, struct sim_wqe *w,
		const struct ibv_send_wr *wr)
{
	uint64_t len = 0;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_send_sge ||
	    wr->num_sge > SIM_SGE || !known(wr->opcode))
		return EINVAL;
	free(w->copied);
	*w = (struct sim_wqe){
		.id = wr->wr_id,
		.raddr = wr->wr.rdma.remote_addr,
		.rkey = wr->wr.rdma.rkey,
		.imm = wr->imm_data,
		.op = wr->opcode,
		.flags = wr->send_flags,
		.sges = wr->num_sge,
	};
	for (int i = 0; i < wr->num_sge; i++) {
		w->sge[i] = wr->sg_list[i];
		len += wr->sg_list[i].length;
	}
	w->len = (uint32_t)len;
	if (len > sim_device_message(qp->ctx->device))
		w->status = IBV_WC_LOC_LEN_ERR;
	if (qp->all_signaled)
		w->flags |= IBV_SEND_SIGNALED;
	return wr->send_flags & IBV_SEND_INLINE ? copy_inline(qp, w) : 0;
}

static struct sim_wqe *next_wqe(struct sim_qp *qp)
{
	uint32_t i = qp->sq_tail % qp->sq_room;

	if (!qp->sq)
		qp->sq = malloc(qp->sq_room * sizeof(*qp->sq));
	if (!qp->sq)
		abort();
	if (i == qp->sq_made)
		qp->sq[qp->sq_made++].copied = NULL;
	return &qp->sq[i];
}

int sim_post_send(struct ibv_qp *q, struct ibv_send_wr *wr,
		  struct ibv_send_wr **bad)
{
	struct sim_qp *qp = (struct sim_qp *)q;
	bool any = false;
	int rc = 0;

	if (qp->ctx->dead) {
		*bad = wr;
		return EIO;
	}
	for (; wr && !rc; wr = wr->next) {
		struct sim_wqe *w = next_wqe(qp);

		if (q->state != IBV_QPS_RTS && q->state != IBV_QPS_ERR)
			rc = EINVAL;
		else if (qp->sq_tail - qp->sq_free == qp->sq_room)
			rc = ENOMEM;
		else
			rc = fill(qp, w, wr);
		if (rc) {
			*bad = wr;
			break;
		}
		qp->sq_tail++;
		any = true;
	}
	if (any && q->state == IBV_QPS_ERR)
		sim_qp_error(qp);
	else if (any)
		sim_wire_start(qp);
	return rc;
}
