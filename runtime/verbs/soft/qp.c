/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs: creation, destruction, queries, and the table of QP numbers. */
#include "verbs/soft/qp.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "verbs/soft/cq.h"
#include "verbs/soft/ctx.h"
#include "verbs/soft/mr.h"
#include "verbs/soft/soft.h"
#include "verbs/soft/wire/rc.h"
#include "verbs/soft/wire/soft_conn.h"

/*
 * Assign a QP number. Bits 23..16 are the context's port slot, so that a peer
 * can derive the TCP port from GID and QP number. Bits 15..0 are an index into
 * ctx->qps. Indices are assigned round robin, so that numbers are reused as
 * late as possible.
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
		/* Relaxed: this store is ordered when the QP is passed to
		 * another thread. */
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

/* Map the queue, so that a QP uses memory only for slots that were used.
 * Otherwise every idle QP would use 176 KiB. */
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
	free(qp);
}

/* Draw a random token. The token has the form of an ECE, and neither half is
 * 0. */
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
	qp->die_at = 0;
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

	/* Refuse the mask bits that libibverbs refuses for every device. With
	 * any other mask, fill in all attributes, as most providers do. */
	if (mask & ~(IBV_QP_RATE_LIMIT - 1))
		return -EOPNOTSUPP;
	soft_lock(qp->ctx);
	*attr = qp->attr;
	attr->cap = qp->cap;
	attr->qp_state = (enum ibv_qp_state)qp_state(qp);
	attr->cur_qp_state = attr->qp_state;
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

	/* A token of 0 would mean that the peer is unknown. */
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

/* The states of an RC queue pair, and the actions when a QP enters them. */

static void soft_qp_set_state(struct soft_qp *qp, int state)
{
	/* Pairs with qp_state() and the read-modify-write in
	 * soft_post_recv(). */
	atomic_exchange_explicit(&qp->state, state, memory_order_acq_rel);
}

static void forget_traffic(struct soft_qp *qp, uint32_t from)
{
	qp->sq_next = from;
	qp->sq_off = 0;
	qp->sq_top = from;
	qp->sq_una = from;
	qp->rd_idx = from;
	qp->reads_out = 0;
	qp->rnr_tries = 0;
	qp->rnr_wait = false;
	soft_rx_unplug(qp);
	qp->refusal = 0;
	qp->conn_at = 0;
	qp->rnr_at = 0;
	qp->ack_at = 0;
	qp->send_at = 0;
	qp->die_at = 0;
	soft_timer_update(qp);
}

static void state_reset(struct soft_qp *qp)
{
	uint32_t tail;

	soft_conn_leave(qp);
	soft_bells_drain(qp->ctx);
	tail = soft_sq_tail(qp);
	forget_traffic(qp, tail);
	qp->sq_base = tail;
	qp->sq_acked = tail;
	qp->has_recv = false;
	qp->rx_msn = 0;
	qp->ack_sent = 0;
	qp->was_up = false;
	qp->peer_gone = false;
	qp->peer_life = 0;
	qp->peer_token = 0;
	soft_cq_forget(qp);
	/* Relaxed: the caller orders later posts to the QP after this reset. */
	atomic_store_explicit(&qp->ctx->qps[qp->idx].sq_done,
			      (uint64_t)qp->ibv.qp_num << 32 | tail,
			      memory_order_relaxed);
	if (!qp->srq)
		/* Release pairs with the acquire in soft_rwq_post(). */
		atomic_store_explicit(
			&qp->rq.head,
			atomic_load_explicit(&qp->rq.tail,
					     memory_order_acquire),
			memory_order_release);
	qp->attr = (struct ibv_qp_attr){ 0 };
}

void soft_qp_flush(struct soft_qp *qp)
{
	uint32_t tail = soft_sq_tail(qp);
	uint32_t i;

	for (i = qp->sq_una; i != tail; i++)
		soft_cq_send(qp, i, IBV_WC_WR_FLUSH_ERR);
	qp->sq_una = tail;
	qp->sq_next = tail;
	qp->rd_idx = tail;
	if (qp->has_recv)
		soft_cq_recv(qp, IBV_WC_WR_FLUSH_ERR);
	qp->has_recv = false;
	while (!qp->srq && soft_recv_take(qp)) {
		soft_cq_recv(qp, IBV_WC_WR_FLUSH_ERR);
		qp->has_recv = false;
	}
}

void soft_qp_error(struct soft_qp *qp)
{
	if (qp_state(qp) == IBV_QPS_ERR)
		return;
	soft_conn_leave(qp);
	soft_qp_set_state(qp, IBV_QPS_ERR);
	forget_traffic(qp, qp->sq_una);
	soft_qp_flush(qp);
	if (qp->srq)
		soft_event(qp->ctx, &qp->ev, IBV_EVENT_QP_LAST_WQE_REACHED);
}

static void become_ready(struct soft_qp *qp)
{
	struct soft_ctx *ctx = qp->ctx;

	soft_gid_addr(&qp->attr.ah_attr.grh.dgid, &qp->peer_addr);
	qp->loop = qp->peer_addr.s_addr == ctx->addr.s_addr &&
		   qp->attr.dest_qp_num >> 16 == ctx->slot;
	qp->conn_backoff = 0;
	/* Skip 0, which means an unknown life. */
	if (!++ctx->lives)
		ctx->lives++;
	qp->life = ctx->lives;
	if (!qp->loop) {
		/* 1 ns is in the past, so the next turn dials. */
		qp->conn_at = 1;
		soft_timer_update(qp);
	}
}

/* Check the first PSN that the peer expects from qp. The pair may have
 * connected before qp knew its first PSN. */
static void check_first_psn(struct soft_qp *qp)
{
	if (qp->conn && qp->conn->state == SOFT_CONN_UP &&
	    qp->peer_rq_psn != qp->attr.sq_psn)
		soft_conn_lost(qp->conn);
}

/* Return whether the device supports this number of outstanding READs. */
static bool reads_fit(const struct soft_qp *qp, const struct ibv_qp_attr *attr,
		      int mask)
{
	const struct ibv_device_attr *most = &qp->ctx->limits.dev;

	if (mask & IBV_QP_MAX_QP_RD_ATOMIC &&
	    attr->max_rd_atomic > most->max_qp_init_rd_atom)
		return false;
	return !(mask & IBV_QP_MAX_DEST_RD_ATOMIC) ||
	       attr->max_dest_rd_atomic <= most->max_qp_rd_atom;
}

static int state_step(struct soft_qp *qp, const struct ibv_qp_attr *attr,
		      int mask)
{
	int from = qp_state(qp);
	int to = mask & IBV_QP_STATE ? (int)attr->qp_state : from;
	int rc = soft_modify_check(from, attr, mask);

	if (rc < 0)
		return rc;
	if (!reads_fit(qp, attr, mask))
		return -EINVAL;
	soft_modify_apply(&qp->attr, attr, mask);
	if (to == IBV_QPS_ERR) {
		soft_qp_error(qp);
		return 0;
	}
	if (to == IBV_QPS_RESET)
		state_reset(qp);
	soft_qp_set_state(qp, to);
	if (from == IBV_QPS_INIT && to == IBV_QPS_RTR)
		become_ready(qp);
	else if (from == IBV_QPS_RTR && to == IBV_QPS_RTS)
		check_first_psn(qp);
	return 0;
}

int soft_modify_qp(struct ibv_qp *q, struct ibv_qp_attr *attr, int mask)
{
	struct soft_qp *qp = to_qp(q);
	int rc;

	soft_lock(qp->ctx);
	rc = soft_is_gone(qp->ctx) ? -EIO : state_step(qp, attr, mask);
	if (!rc && mask & IBV_QP_STATE)
		q->state = attr->qp_state;
	soft_unlock(qp->ctx);
	return rc;
}

#define INIT_ATTRS (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RTR_ATTRS                                                              \
	(IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |       \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_ATTRS                                                              \
	(IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |                \
	 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)
#define ACCESS_KNOWN                                                           \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |                    \
	 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* From InfiniBand Architecture Specification, volume 1, 11.2.5.2, without
 * alternate paths and without the state SQD. */
#define LIVE_ATTRS                                                             \
	(IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE)

static const struct {
	int from, to, required, optional;
} steps[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT, INIT_ATTRS, 0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT, 0, INIT_ATTRS },
	{ IBV_QPS_INIT, IBV_QPS_RTR, RTR_ATTRS,
	  IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPS_RTR, IBV_QPS_RTS, RTS_ATTRS, LIVE_ATTRS },
	{ IBV_QPS_RTS, IBV_QPS_RTS, 0, LIVE_ATTRS },
};

static int check_step(int from, int to, int mask)
{
	mask &= ~(IBV_QP_STATE | IBV_QP_CUR_STATE);
	if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET))
		return mask ? -EINVAL : 0;
	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (steps[i].from != from || steps[i].to != to)
			continue;
		if ((mask & steps[i].required) != steps[i].required)
			return -EINVAL;
		if (mask & ~(steps[i].required | steps[i].optional))
			return -EINVAL;
		return 0;
	}
	return -EINVAL;
}

static int check_path(const struct ibv_qp_attr *a, int mask)
{
	struct in_addr peer;

	if (mask & IBV_QP_PORT && a->port_num != 1)
		return -EINVAL;
	if (mask & IBV_QP_PKEY_INDEX && a->pkey_index)
		return -EINVAL;
	if (mask & IBV_QP_PATH_MTU &&
	    (a->path_mtu < IBV_MTU_256 || a->path_mtu > IBV_MTU_4096))
		return -EINVAL;
	if (mask & IBV_QP_DEST_QPN && a->dest_qp_num >> 24)
		return -EINVAL;
	if (mask & IBV_QP_AV &&
	    (!a->ah_attr.is_global || a->ah_attr.port_num != 1 ||
	     a->ah_attr.grh.sgid_index > 1 ||
	     !soft_gid_addr(&a->ah_attr.grh.dgid, &peer)))
		return -EINVAL;
	return 0;
}

static int check_values(const struct ibv_qp_attr *a, int mask)
{
	if (mask & IBV_QP_ACCESS_FLAGS && a->qp_access_flags & ~ACCESS_KNOWN)
		return -EINVAL;
	if (mask & IBV_QP_PATH_MIG_STATE &&
	    a->path_mig_state != IBV_MIG_MIGRATED)
		return -EINVAL;
	if (mask & IBV_QP_RQ_PSN && a->rq_psn >> 24)
		return -EINVAL;
	if (mask & IBV_QP_SQ_PSN && a->sq_psn >> 24)
		return -EINVAL;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC && a->max_rd_atomic > SOFT_MAX_RD)
		return -EINVAL;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC &&
	    a->max_dest_rd_atomic > SOFT_MAX_RD)
		return -EINVAL;
	if (mask & IBV_QP_MIN_RNR_TIMER && a->min_rnr_timer > 31)
		return -EINVAL;
	if (mask & IBV_QP_TIMEOUT && a->timeout > 31)
		return -EINVAL;
	if (mask & IBV_QP_RETRY_CNT && a->retry_cnt > 7)
		return -EINVAL;
	if (mask & IBV_QP_RNR_RETRY && a->rnr_retry > 7)
		return -EINVAL;
	return check_path(a, mask);
}

int soft_modify_check(int from, const struct ibv_qp_attr *attr, int mask)
{
	int to = mask & IBV_QP_STATE ? (int)attr->qp_state : from, rc;

	if (mask & IBV_QP_CUR_STATE && (int)attr->cur_qp_state != from)
		return -EINVAL;
	rc = check_step(from, to, mask);
	return rc ? rc : check_values(attr, mask);
}

void soft_modify_apply(struct ibv_qp_attr *q, const struct ibv_qp_attr *a,
		       int mask)
{
	if (mask & IBV_QP_PKEY_INDEX)
		q->pkey_index = a->pkey_index;
	if (mask & IBV_QP_PORT)
		q->port_num = a->port_num;
	if (mask & IBV_QP_ACCESS_FLAGS)
		q->qp_access_flags = a->qp_access_flags;
	if (mask & IBV_QP_AV)
		q->ah_attr = a->ah_attr;
	if (mask & IBV_QP_PATH_MTU)
		q->path_mtu = a->path_mtu;
	if (mask & IBV_QP_DEST_QPN)
		q->dest_qp_num = a->dest_qp_num;
	if (mask & IBV_QP_RQ_PSN)
		q->rq_psn = a->rq_psn;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		q->max_dest_rd_atomic = a->max_dest_rd_atomic;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		q->min_rnr_timer = a->min_rnr_timer;
	if (mask & IBV_QP_TIMEOUT)
		q->timeout = a->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		q->retry_cnt = a->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		q->rnr_retry = a->rnr_retry;
	if (mask & IBV_QP_SQ_PSN)
		q->sq_psn = a->sq_psn;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		q->max_rd_atomic = a->max_rd_atomic;
}
