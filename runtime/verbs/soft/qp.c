/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs: creation, destruction, queries, and the table of QP numbers. */
#include "verbs/soft/qp.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "verbs/soft/cq.h"
#include "verbs/soft/ctx.h"
#include "verbs/soft/event.h"
#include "verbs/soft/mr.h"
#include "verbs/soft/srq.h"
#include "verbs/soft/wire/conn.h"
#include "verbs/soft/wire/rc.h"

/*
 * Bits 23..16 of a QP number are the context's port slot, so that a peer that
 * knows GID and QP number knows the TCP port to connect to. Bits 15..0 are an
 * index into ctx->qps, handed out in turn so that numbers are reused late.
 */
static int number_take(struct soft_ctx *ctx, struct soft_qp *qp)
{
	if (ctx->nqps >= (uint32_t)ctx->limits.dev.max_qp)
		return -ENOMEM;
	for (uint32_t i = 0; i < SOFT_NQP; i++) {
		uint32_t idx = (ctx->qp_hint + i) % SOFT_NQP;

		if (idx < 2 || ctx->qps[idx].qp)
			continue;
		ctx->qp_hint = idx + 1;
		ctx->qps[idx].qp = qp;
		qp->idx = idx;
		qp->ibv.qp_num = (uint32_t)ctx->slot << 16 | idx;
		qp->ibv.handle = qp->ibv.qp_num;
		/* Relaxed: handing the QP to another thread orders this. */
		atomic_store_explicit(&ctx->qps[idx].sq_done,
				      (uint64_t)qp->ibv.qp_num << 32,
				      memory_order_relaxed);
		return 0;
	}
	return -ENOMEM;
}

struct soft_qp *soft_qp_find(struct soft_ctx *ctx, uint32_t qpn)
{
	struct soft_qp *qp = ctx->qps[qpn & (SOFT_NQP - 1)].qp;

	return qp && qp->ibv.qp_num == qpn ? qp : NULL;
}

static int check_init(const struct soft_ctx *ctx,
		      const struct ibv_qp_init_attr *a)
{
	const struct mpib_soft_limits *most = &ctx->limits;
	const struct ibv_qp_cap *c = &a->cap;
	uint32_t wrs = (uint32_t)most->dev.max_qp_wr;
	uint32_t sges = (uint32_t)most->dev.max_sge;

	if (a->qp_type != IBV_QPT_RC)
		return -EOPNOTSUPP;
	if (!a->send_cq || !a->recv_cq)
		return -EINVAL;
	if (c->max_send_wr > wrs || c->max_send_sge > sges ||
	    c->max_inline_data > most->max_inline_data)
		return -EINVAL;
	if (!a->srq && (c->max_recv_wr > wrs || c->max_recv_sge > sges))
		return -EINVAL;
	return 0;
}

static size_t sq_bytes(const struct soft_qp *qp)
{
	return ((size_t)qp->sq_mask + 1) * qp->sq_stride;
}

/* Mapped, so that a QP only takes the pages of those slots that were used: a
 * thousand idle ones would else take 176 KiB each. */
static int sq_alloc(struct soft_qp *qp, const struct ibv_qp_cap *c)
{
	size_t bytes = sizeof(struct soft_swqe) +
		       c->max_send_sge * sizeof(struct ibv_sge) +
		       c->max_inline_data;
	void *p;

	qp->sq_stride = (bytes + 7) & ~(size_t)7;
	p = mmap(NULL, sq_bytes(qp), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	madvise(p, sq_bytes(qp), MADV_NOHUGEPAGE);
	qp->sq = p;
	return 0;
}

static void queues_free(struct soft_qp *qp)
{
	if (qp->sq)
		munmap(qp->sq, sq_bytes(qp));
	soft_rwq_free(&qp->rq);
}

static int queues_alloc(struct soft_qp *qp, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_cap *c = &attr->cap;
	uint32_t size = 1;

	while (size < c->max_send_wr)
		size *= 2;
	qp->sq_mask = size - 1;
	c->max_send_wr = size;
	if (!c->max_send_sge)
		c->max_send_sge = 1;
	if (sq_alloc(qp, c) < 0)
		return -ENOMEM;
	if (attr->srq) {
		c->max_recv_wr = 0;
		c->max_recv_sge = 0;
		return 0;
	}
	if (soft_rwq_init(&qp->rq, c->max_recv_wr, c->max_recv_sge) < 0)
		return -ENOMEM;
	c->max_recv_wr = qp->rq.mask + 1;
	return 0;
}

static void objects_hold(struct soft_qp *qp, int n)
{
	qp->pd->refs += (unsigned)n;
	qp->scq->refs += (unsigned)n;
	qp->rcq->refs += (unsigned)n;
	if (qp->srq)
		qp->srq->refs += (unsigned)n;
	qp->ctx->nqps += (unsigned)n;
}

static struct soft_qp *qp_new(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct soft_qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return NULL;
	qp->ctx = to_ctx(pd->context);
	qp->pd = to_pd(pd);
	qp->scq = to_cq(attr->send_cq);
	qp->rcq = to_cq(attr->recv_cq);
	qp->srq = attr->srq ? to_srq(attr->srq) : NULL;
	qp->sig_all = attr->sq_sig_all;
	qp->ev.element = &qp->ibv;
	qp->ibv.context = pd->context;
	qp->ibv.qp_context = attr->qp_context;
	qp->ibv.pd = pd;
	qp->ibv.send_cq = attr->send_cq;
	qp->ibv.recv_cq = attr->recv_cq;
	qp->ibv.srq = attr->srq;
	qp->ibv.qp_type = attr->qp_type;
	qp->ibv.state = IBV_QPS_RESET;
	pthread_mutex_init(&qp->ibv.mutex, NULL);
	pthread_cond_init(&qp->ibv.cond, NULL);
	return qp;
}

static void qp_free(struct soft_qp *qp)
{
	pthread_cond_destroy(&qp->ibv.cond);
	pthread_mutex_destroy(&qp->ibv.mutex);
	queues_free(qp);
	soft_late_drop(qp);
	free(qp);
}

/* As ECE has it, and never one whose halves are 0. */
static int token_make(struct soft_qp *qp)
{
	if (getrandom(&qp->token, sizeof(qp->token), 0) != sizeof(qp->token))
		return -EIO;
	qp->token |= 1ull << 32 | 1;
	return 0;
}

int soft_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
		   struct ibv_qp **out)
{
	struct ibv_qp_init_attr a = *attr;
	struct soft_qp *qp;
	int rc = soft_is_gone(to_ctx(pd->context))
			 ? -EIO
			 : check_init(to_ctx(pd->context), attr);

	if (rc < 0)
		return rc;
	qp = qp_new(pd, attr);
	if (!qp)
		return -ENOMEM;
	rc = queues_alloc(qp, &a);
	if (rc < 0)
		goto err_free;
	rc = token_make(qp);
	if (rc < 0)
		goto err_free;
	qp->cap = a.cap;

	soft_lock(qp->ctx);
	rc = number_take(qp->ctx, qp);
	if (!rc)
		objects_hold(qp, 1);
	soft_unlock(qp->ctx);
	if (rc < 0)
		goto err_free;
	attr->cap = a.cap;
	*out = &qp->ibv;
	return 0;

err_free:
	qp_free(qp);
	return rc;
}

int soft_destroy_qp(struct ibv_qp *q)
{
	struct soft_qp *qp = to_qp(q);
	struct soft_ctx *ctx = qp->ctx;

	soft_lock(ctx);
	soft_bells_drain(ctx);
	soft_conn_leave(qp);
	if (qp->ready)
		TAILQ_REMOVE(&ctx->loop_ready, qp, ready_link);
	qp->conn_at = 0;
	qp->rnr_at = 0;
	qp->ack_at = 0;
	qp->send_at = 0;
	soft_timer_update(qp);
	soft_cq_forget(qp);
	ctx->qps[qp->idx].qp = NULL;
	/* Relaxed: see cq_reclaim(). */
	atomic_store_explicit(&ctx->qps[qp->idx].sq_done, 0,
			      memory_order_relaxed);
	objects_hold(qp, -1);
	soft_unlock(ctx);

	soft_events_drain(ctx, &qp->ev);
	qp_free(qp);
	return 0;
}

int soft_query_qp(struct ibv_qp *q, struct ibv_qp_attr *attr, int mask,
		  struct ibv_qp_init_attr *init)
{
	struct soft_qp *qp = to_qp(q);

	/* libibverbs refuses these mask bits for every device. Otherwise fill
	 * in all attributes whatever mask asks for, as most providers do. */
	if (mask & ~(IBV_QP_RATE_LIMIT - 1))
		return -EOPNOTSUPP;
	soft_lock(qp->ctx);
	*attr = qp->attr;
	attr->cap = qp->cap;
	attr->qp_state = (enum ibv_qp_state)qp_state(qp);
	attr->cur_qp_state = attr->qp_state;
	attr->sq_draining = soft_sqd_draining(qp);
	q->state = attr->qp_state;
	soft_unlock(qp->ctx);
	if (init)
		*init = (struct ibv_qp_init_attr){
			.qp_context = q->qp_context,
			.send_cq = q->send_cq,
			.recv_cq = q->recv_cq,
			.srq = q->srq,
			.cap = qp->cap,
			.qp_type = q->qp_type,
			.sq_sig_all = qp->sig_all,
		};
	return 0;
}

int soft_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	uint64_t token = to_qp(qp)->token;

	*ece = (struct ibv_ece){ .vendor_id = (uint32_t)(token >> 32),
				 .options = (uint32_t)token };
	return 0;
}

int soft_set_ece(struct ibv_qp *q, const struct ibv_ece *ece)
{
	struct soft_qp *qp = to_qp(q);
	uint64_t token = (uint64_t)ece->vendor_id << 32 | ece->options;
	int rc = 0;

	/* 0 would mean that nothing is known of the peer. */
	if (!token)
		return -EINVAL;
	soft_lock(qp->ctx);
	if (qp_state(qp) == IBV_QPS_RESET || qp_state(qp) == IBV_QPS_INIT)
		qp->peer_token = token;
	else
		rc = -EINVAL;
	soft_unlock(qp->ctx);
	return rc;
}
