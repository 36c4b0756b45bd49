/* SPDX-License-Identifier: Apache-2.0 */
/* The states of an RC queue pair, and what it does on its way into each. */
#include "verbs/soft/qp.h"

#include <errno.h>

#include "verbs/soft/cq.h"
#include "verbs/soft/ctx.h"
#include "verbs/soft/event.h"
#include "verbs/soft/gid.h"
#include "verbs/soft/srq.h"
#include "verbs/soft/wire/conn.h"
#include "verbs/soft/wire/rc.h"

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
	qp->sqd_notify = false;
	soft_rx_unplug(qp);
	qp->nak = 0;
	qp->dying = false;
	qp->conn_at = 0;
	qp->rnr_at = 0;
	qp->ack_at = 0;
	qp->send_at = 0;
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
	qp->natomics = 0;
	qp->established = false;
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
	/* Skip 0, which means that a life is not known. */
	if (!++ctx->lives)
		ctx->lives++;
	qp->life = ctx->lives;
	if (!qp->loop) {
		/* Have the next turn dial: 1 is a time long ago. */
		qp->conn_at = 1;
		soft_timer_update(qp);
	}
}

/* The pair may have connected while qp did not know its first PSN. */
static void check_first_psn(struct soft_qp *qp)
{
	if (qp->conn && qp->conn->state == SOFT_CONN_UP &&
	    qp->peer_rq_psn != qp->attr.sq_psn)
		soft_conn_lost(qp->conn);
}

static void state_entered(struct soft_qp *qp, int from, int to, bool notify)
{
	if (to == IBV_QPS_RTR)
		become_ready(qp);
	else if (from == IBV_QPS_RTR && to == IBV_QPS_RTS)
		check_first_psn(qp);
	else if (to == IBV_QPS_SQD)
		soft_sqd_begin(qp, notify);
	else if (from == IBV_QPS_SQD) /* to RTS */
		soft_sqd_end(qp);
}

/* Whether the device does so many READs and atomics at a time. */
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
	if (from != to)
		state_entered(qp, from, to,
			      mask & IBV_QP_EN_SQD_ASYNC_NOTIFY &&
				      attr->en_sqd_async_notify);
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

/* InfiniBand Architecture Specification, volume 1, 11.2.5.2, without what needs
 * an alternate path. The path itself (IBV_QP_AV) is not changed in SQD. */
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
	{ IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPS_SQD, IBV_QPS_RTS, 0, LIVE_ATTRS },
	{ IBV_QPS_SQD, IBV_QPS_SQD, 0,
	  LIVE_ATTRS | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_TIMEOUT |
		  IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		  IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC },
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
