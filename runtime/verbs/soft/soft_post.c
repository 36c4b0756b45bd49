/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posting. WRs are copied into the send or receive queue, and the QP rings its
 * bell. No data moves before the next turn, so a batch of posts needs one
 * socket operation. Called by the owner thread of the context, or in threaded
 * mode by any thread under the context's lock.
 */
#include "verbs/soft/qp.h"

#include <errno.h>
#include <stdlib.h>

#include "verbs/soft/ctx.h"
#include "verbs/soft/mr.h"
#include "verbs/soft/soft.h"
#include "verbs/soft/wire/rc.h"
#include "verbs/soft/wire/soft_wire.h"

/* Return the wire's operation for op, and set *wc_op to the completion's
 * opcode. Return 0 if the software HCA does not support op. */
static uint8_t wire_op(enum ibv_wr_opcode op, uint8_t *wc_op)
{
	switch (op) {
	case IBV_WR_RDMA_WRITE:
		*wc_op = IBV_WC_RDMA_WRITE;
		return SOFT_OP_WRITE;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		*wc_op = IBV_WC_RDMA_WRITE;
		return SOFT_OP_WRITE_IMM;
	case IBV_WR_SEND:
		*wc_op = IBV_WC_SEND;
		return SOFT_OP_SEND;
	case IBV_WR_SEND_WITH_IMM:
		*wc_op = IBV_WC_SEND;
		return SOFT_OP_SEND_IMM;
	case IBV_WR_RDMA_READ:
		*wc_op = IBV_WC_RDMA_READ;
		return SOFT_OP_READ;
	default:
		return 0;
	}
}

static int copy_inline(struct soft_qp *qp, uint32_t idx,
		       const struct ibv_send_wr *wr, uint64_t len)
{
	uint32_t max = qp->cap.max_inline_data;
	uint8_t *p = soft_sq_inline(qp, idx);

	if (len > max || soft_swqe(qp, idx)->op == SOFT_OP_READ)
		return EINVAL;
	for (int i = 0; i < wr->num_sge; i++) {
		if (!wr->sg_list[i].length)
			continue;
		memcpy(p, (const void *)(uintptr_t)wr->sg_list[i].addr,
		       wr->sg_list[i].length);
		p += wr->sg_list[i].length;
	}
	return 0;
}

static int post_fill(struct soft_qp *qp, uint32_t idx,
		     const struct ibv_send_wr *wr)
{
	struct soft_swqe *w = soft_swqe(qp, idx);
	uint64_t len = 0;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_send_sge)
		return EINVAL;
	for (int i = 0; i < wr->num_sge; i++)
		len += wr->sg_list[i].length;
	*w = (struct soft_swqe){
		.wr_id = wr->wr_id,
		.raddr = wr->wr.rdma.remote_addr,
		.rkey = wr->wr.rdma.rkey,
		.imm = wr->imm_data,
		.len = (uint32_t)len,
		.nsge = (uint32_t)wr->num_sge,
		.signaled = qp->sig_all || wr->send_flags & IBV_SEND_SIGNALED,
		.solicited = wr->send_flags & IBV_SEND_SOLICITED,
		.fence = wr->send_flags & IBV_SEND_FENCE,
		.is_inline = wr->send_flags & IBV_SEND_INLINE,
	};
	w->op = wire_op(wr->opcode, &w->wc_op);
	if (!w->op)
		return EINVAL;
	if (len > qp->ctx->limits.max_msg_sz)
		w->status = IBV_WC_LOC_LEN_ERR;
	if (w->is_inline)
		return copy_inline(qp, idx, wr, len);
	if (wr->num_sge)
		memcpy(soft_sq_sges(qp, idx), wr->sg_list,
		       (size_t)wr->num_sge * sizeof(*wr->sg_list));
	return 0;
}

unsigned mpib_soft_send_room(struct ibv_qp *q)
{
	struct soft_qp *qp = to_qp(q);
	uint64_t done = atomic_load_explicit(&qp->ctx->qps[qp->idx].sq_done,
					     memory_order_relaxed);
	uint32_t tail =
		atomic_load_explicit(&qp->sq_tail, memory_order_relaxed);

	/* Relaxed loads are enough, because post_chain() checks for room
	 * again. */
	return qp->sq_mask + 1 - (tail - (uint32_t)done);
}

static int post_chain(struct soft_qp *qp, struct ibv_send_wr *wr,
		      struct ibv_send_wr **bad)
{
	/* Relaxed: poll_cq advances sq_done on this thread. For threaded mode
	 * see cq_reclaim(). */
	uint64_t done = atomic_load_explicit(&qp->ctx->qps[qp->idx].sq_done,
					     memory_order_relaxed);
	uint32_t tail =
		atomic_load_explicit(&qp->sq_tail, memory_order_relaxed);
	uint32_t first = tail;
	int state = qp_state(qp);
	int rc = 0;

	for (; wr && !rc; wr = wr->next) {
		if (state != IBV_QPS_RTS && state != IBV_QPS_ERR)
			rc = EINVAL;
		else if (tail - (uint32_t)done > qp->sq_mask)
			rc = ENOMEM;
		else
			rc = post_fill(qp, tail, wr);
		if (rc)
			*bad = wr;
		else
			tail++;
	}
	if (tail != first) {
		/* Release pairs with the acquire in soft_sq_tail(). */
		atomic_store_explicit(&qp->sq_tail, tail, memory_order_release);
		soft_bell(qp);
	}
	return rc;
}

int soft_post_send(struct ibv_qp *q, struct ibv_send_wr *wr,
		   struct ibv_send_wr **bad)
{
	struct soft_qp *qp = to_qp(q);
	int rc;

	if (!qp->ctx->threaded)
		return post_chain(qp, wr, bad);
	soft_data_lock(qp->ctx);
	rc = post_chain(qp, wr, bad);
	soft_data_unlock(qp->ctx);
	return rc;
}

int soft_post_recv(struct ibv_qp *q, struct ibv_recv_wr *wr,
		   struct ibv_recv_wr **bad)
{
	struct soft_qp *qp = to_qp(q);
	int state = qp_state(qp);
	int rc;

	if (state == IBV_QPS_RESET || qp->srq) {
		*bad = wr;
		return EINVAL;
	}
	if (qp->ctx->threaded)
		soft_data_lock(qp->ctx);
	rc = soft_rwq_post(&qp->rq, wr, bad);
	/* If the QP is in ERR, the next turn flushes the receive. Use a
	 * read-modify-write, because it is ordered with the exchange in
	 * soft_qp_set_state(). So either the thread that sets ERR sees the
	 * post, or this thread sees ERR. */
	state = atomic_fetch_or_explicit(&qp->state, 0, memory_order_acq_rel);
	if (state == IBV_QPS_ERR)
		soft_bell(qp);
	if (qp->ctx->threaded)
		soft_data_unlock(qp->ctx);
	return rc;
}

/*
 * Receive queues, a QP's own or shared. Each is a ring that the posting thread
 * fills and the turn empties. A WQE is copied out when it is used, so its entry
 * is free immediately.
 */

int soft_rwq_init(struct soft_rwq *rq, uint32_t max_wr, uint32_t max_sge)
{
	uint32_t size = 1;

	while (size < max_wr)
		size *= 2;
	rq->mask = size - 1;
	rq->max_sge = max_sge;
	rq->wqe = calloc(size, sizeof(*rq->wqe));
	rq->sge = calloc((size_t)size * (max_sge ? max_sge : 1),
			 sizeof(*rq->sge));
	if (rq->wqe && rq->sge)
		return 0;
	soft_rwq_free(rq);
	return -ENOMEM;
}

void soft_rwq_free(struct soft_rwq *rq)
{
	free(rq->wqe);
	free(rq->sge);
	rq->wqe = NULL;
	rq->sge = NULL;
}

int soft_rwq_post(struct soft_rwq *rq, struct ibv_recv_wr *wr,
		  struct ibv_recv_wr **bad)
{
	uint32_t tail, head;
	int rc = 0;

	tail = atomic_load_explicit(&rq->tail, memory_order_relaxed);
	for (; wr; wr = wr->next, tail++) {
		struct soft_rwqe *w = &rq->wqe[tail & rq->mask];

		/* Acquire pairs with the release in rwq_take(): the WQE was
		 * copied out of the entry that this post fills. */
		head = atomic_load_explicit(&rq->head, memory_order_acquire);
		if (tail - head > rq->mask)
			rc = ENOMEM;
		else if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge)
			rc = EINVAL;
		if (rc) {
			*bad = wr;
			break;
		}
		w->wr_id = wr->wr_id;
		w->nsge = (uint32_t)wr->num_sge;
		if (w->nsge)
			memcpy(&rq->sge[(size_t)(tail & rq->mask) *
					rq->max_sge],
			       wr->sg_list, w->nsge * sizeof(*rq->sge));
	}
	/* Release pairs with the acquire in rwq_take(). */
	atomic_store_explicit(&rq->tail, tail, memory_order_release);
	return rc;
}

static bool rwq_take(struct soft_rwq *rq, struct soft_qp *qp)
{
	uint32_t head, tail;
	struct soft_rwqe *w;

	head = atomic_load_explicit(&rq->head, memory_order_relaxed);
	/* Acquire pairs with the release in soft_rwq_post(). */
	tail = atomic_load_explicit(&rq->tail, memory_order_acquire);
	if (head == tail)
		return false;
	w = &rq->wqe[head & rq->mask];
	qp->has_recv = true;
	qp->recv_wr_id = w->wr_id;
	qp->recv_nsge = w->nsge;
	if (w->nsge)
		memcpy(qp->recv_sge,
		       &rq->sge[(size_t)(head & rq->mask) * rq->max_sge],
		       w->nsge * sizeof(*qp->recv_sge));
	/* Release pairs with the acquire in soft_rwq_post(). */
	atomic_store_explicit(&rq->head, head + 1, memory_order_release);
	return true;
}

static void check_limit(struct soft_ctx *ctx, struct soft_srq *srq)
{
	uint32_t left;

	if (!srq->limit)
		return;
	/* Relaxed: a receive that is being posted may or may not count. */
	left = atomic_load_explicit(&srq->rq.tail, memory_order_relaxed) -
	       atomic_load_explicit(&srq->rq.head, memory_order_relaxed);
	if (left >= srq->limit)
		return;
	srq->limit = 0;
	soft_event(ctx, &srq->ev, IBV_EVENT_SRQ_LIMIT_REACHED);
}

bool soft_recv_take(struct soft_qp *qp)
{
	if (!qp->srq)
		return rwq_take(&qp->rq, qp);
	if (!rwq_take(&qp->srq->rq, qp))
		return false;
	check_limit(qp->ctx, qp->srq);
	return true;
}

struct soft_pd *soft_recv_pd(struct soft_qp *qp)
{
	return qp->srq ? to_pd(qp->srq->ibv.pd) : qp->pd;
}

int soft_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr,
		    struct ibv_srq **out)
{
	struct soft_ctx *ctx = to_ctx(pd->context);
	struct soft_srq *srq;
	int rc;

	if (soft_is_gone(ctx))
		return -EIO;
	if (!attr->attr.max_wr ||
	    attr->attr.max_wr > (uint32_t)ctx->limits.dev.max_srq_wr ||
	    attr->attr.max_sge > SOFT_MAX_SGE)
		return -EINVAL;
	if (ctx->nsrqs >= (unsigned)ctx->limits.dev.max_srq)
		return -ENOMEM;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return -ENOMEM;
	rc = soft_rwq_init(&srq->rq, attr->attr.max_wr, attr->attr.max_sge);
	if (rc < 0) {
		free(srq);
		return rc;
	}
	attr->attr.max_wr = srq->rq.mask + 1;
	srq->ev.element = &srq->ibv;
	srq->ibv.context = pd->context;
	srq->ibv.srq_context = attr->srq_context;
	srq->ibv.pd = pd;
	pthread_mutex_init(&srq->ibv.mutex, NULL);
	pthread_cond_init(&srq->ibv.cond, NULL);
	soft_lock(ctx);
	to_pd(pd)->refs++;
	ctx->nsrqs++;
	soft_unlock(ctx);
	*out = &srq->ibv;
	return 0;
}

int soft_modify_srq(struct ibv_srq *s, struct ibv_srq_attr *attr, int mask)
{
	struct soft_ctx *ctx = to_ctx(s->context);
	struct soft_srq *srq = to_srq(s);

	if (soft_is_gone(ctx))
		return -EIO;
	if (mask & IBV_SRQ_MAX_WR)
		return -EOPNOTSUPP;
	if (mask & ~IBV_SRQ_LIMIT)
		return -EINVAL;
	if (!mask)
		return 0;
	if (attr->srq_limit > srq->rq.mask + 1)
		return -EINVAL;
	soft_lock(ctx);
	srq->limit = attr->srq_limit;
	soft_unlock(ctx);
	return 0;
}

int soft_query_srq(struct ibv_srq *s, struct ibv_srq_attr *attr)
{
	struct soft_ctx *ctx = to_ctx(s->context);
	struct soft_srq *srq = to_srq(s);

	soft_lock(ctx);
	*attr = (struct ibv_srq_attr){
		.max_wr = srq->rq.mask + 1,
		.max_sge = srq->rq.max_sge,
		.srq_limit = srq->limit,
	};
	soft_unlock(ctx);
	return 0;
}

int soft_destroy_srq(struct ibv_srq *s)
{
	struct soft_ctx *ctx = to_ctx(s->context);
	struct soft_srq *srq = to_srq(s);

	soft_lock(ctx);
	if (srq->refs) {
		soft_unlock(ctx);
		return -EBUSY;
	}
	to_pd(s->pd)->refs--;
	ctx->nsrqs--;
	soft_unlock(ctx);
	soft_events_drain(ctx, &srq->ev);
	pthread_cond_destroy(&s->cond);
	pthread_mutex_destroy(&s->mutex);
	soft_rwq_free(&srq->rq);
	free(srq);
	return 0;
}

int soft_post_srq_recv(struct ibv_srq *s, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad)
{
	struct soft_ctx *ctx = to_ctx(s->context);
	int rc;

	if (ctx->threaded)
		soft_data_lock(ctx);
	rc = soft_rwq_post(&to_srq(s)->rq, wr, bad);
	if (ctx->threaded)
		soft_data_unlock(ctx);
	return rc;
}
