/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receive queues, a QP's own and shared: a ring that the posting thread fills
 * and the turn empties. A WQE is copied out when it is taken, so that its place
 * is free at once.
 */
#include "verbs/soft/srq.h"

#include <errno.h>
#include <stdlib.h>

#include "verbs/soft/ctx.h"
#include "verbs/soft/event.h"
#include "verbs/soft/mr.h"
#include "verbs/soft/qp.h"

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

		/* Acquire pairs with the release in rwq_take(): the WQE has
		 * been copied out of the place that is filled here. */
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
	/* Relaxed: a receive posted at this moment may count or not. */
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
