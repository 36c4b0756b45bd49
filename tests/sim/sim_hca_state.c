/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a queue pair. */
#include <errno.h>
#include <string.h>

#include "sim_hca.h"

#define INIT_ATTRS (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RTR_ATTRS                                                              \
	(IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |       \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_ATTRS                                                              \
	(IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |                \
	 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)

#define LIVE_ATTRS                                                             \
	(IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE)

/* InfiniBand Architecture Specification, volume 1, 11.2.5.2. */
static const struct way {
	int from, to, must, may;
} ways[] = {
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

static int check_way(int from, int to, int mask)
{
	mask &= ~(IBV_QP_STATE | IBV_QP_CUR_STATE);
	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
		return mask ? -EINVAL : 0;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		const struct way *w = &ways[i];

		if (w->from == from && w->to == to)
			return (mask & w->must) != w->must ||
					       mask & ~(w->must | w->may)
				       ? -EINVAL
				       : 0;
	}
	return -EINVAL;
}

static bool path_wrong(const struct ibv_qp_attr *a, int mask)
{
	return (mask & IBV_QP_PORT && a->port_num != 1) ||
	       (mask & IBV_QP_PKEY_INDEX && a->pkey_index) ||
	       (mask & IBV_QP_PATH_MTU &&
		(a->path_mtu < IBV_MTU_256 || a->path_mtu > IBV_MTU_4096)) ||
	       (mask & IBV_QP_DEST_QPN && a->dest_qp_num >> 24) ||
	       (mask & IBV_QP_AV &&
		(!a->ah_attr.is_global || a->ah_attr.port_num != 1 ||
		 a->ah_attr.grh.sgid_index > 1));
}

static bool number_wrong(const struct ibv_qp_attr *a, int mask)
{
	return (mask & IBV_QP_PATH_MIG_STATE &&
		a->path_mig_state != IBV_MIG_MIGRATED) ||
	       (mask & IBV_QP_RQ_PSN && a->rq_psn >> 24) ||
	       (mask & IBV_QP_SQ_PSN && a->sq_psn >> 24) ||
	       (mask & IBV_QP_MAX_QP_RD_ATOMIC &&
		a->max_rd_atomic > SIM_READS) ||
	       (mask & IBV_QP_MAX_DEST_RD_ATOMIC &&
		a->max_dest_rd_atomic > SIM_READS) ||
	       (mask & IBV_QP_MIN_RNR_TIMER && a->min_rnr_timer > 31) ||
	       (mask & IBV_QP_TIMEOUT && a->timeout > 31) ||
	       (mask & IBV_QP_RETRY_CNT && a->retry_cnt > 7) ||
	       (mask & IBV_QP_RNR_RETRY && a->rnr_retry > 7);
}

static void apply(struct ibv_qp_attr *q, const struct ibv_qp_attr *a, int mask)
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

void sim_qp_quiet(struct sim_qp *qp)
{
	sim_event_disarm(&qp->arrive);
	sim_event_disarm(&qp->ack);
	sim_event_disarm(&qp->fatal);
}

static void on_fatal(void *arg)
{
	sim_qp_error(arg);
}

void sim_qp_fatal(struct sim_qp *qp)
{
	if (qp->ibv.state == IBV_QPS_ERR || qp->fatal.place)
		return;
	sim_hca_note(qp->ctx, IBV_EVENT_QP_FATAL, &qp->ibv);
	sim_event_arm(&qp->fatal, sim_now, on_fatal, qp);
}

void sim_qp_look_drained(struct sim_qp *qp)
{
	if (!qp->notify_drained || qp->sq_una != qp->sq_stop)
		return;
	qp->notify_drained = false;
	sim_hca_note(qp->ctx, IBV_EVENT_SQ_DRAINED, &qp->ibv);
}

static void begin_drain(struct sim_qp *qp, bool notify)
{
	/* The one that is on its way was begun. */
	qp->sq_stop = qp->sq_next + (qp->arrive.place ? 1 : 0);
	qp->notify_drained = notify;
	sim_qp_look_drained(qp);
}

static void flush_recv(struct sim_qp *qp)
{
	struct sim_rwqe *r;

	while (!qp->ibv.srq && (r = sim_recv_next(qp))) {
		struct ibv_wc wc = { .wr_id = r->id,
				     .status = IBV_WC_WR_FLUSH_ERR,
				     .opcode = (enum ibv_wc_opcode)0x5a,
				     .byte_len = 0xdeadbeef,
				     .qp_num = qp->ibv.qp_num };

		sim_recv_taken(qp);
		sim_cq_push(qp->ibv.recv_cq, qp, &wc, false, 0, true);
	}
}

void sim_qp_error(struct sim_qp *qp)
{
	bool first = qp->ibv.state != IBV_QPS_ERR;

	qp->ibv.state = IBV_QPS_ERR;
	qp->notify_drained = false;
	sim_qp_quiet(qp);
	while (qp->sq_una != qp->sq_tail)
		sim_wqe_end(qp, IBV_WC_WR_FLUSH_ERR);
	flush_recv(qp);
	if (first && qp->ibv.srq)
		sim_hca_note(qp->ctx, IBV_EVENT_QP_LAST_WQE_REACHED, &qp->ibv);
}

static void reset(struct sim_qp *qp)
{
	sim_qp_quiet(qp);
	sim_cq_forget(qp->ibv.send_cq, qp);
	sim_cq_forget(qp->ibv.recv_cq, qp);
	qp->sq_una = qp->sq_next = qp->sq_free = qp->sq_tail;
	qp->rq.head = qp->rq.tail;
	qp->sent = qp->taken = 0;
	qp->last_arrive = qp->last_ack = qp->stuck_since = 0;
	qp->rnr_tries = 0;
	qp->halted = qp->ack_lost = qp->established = false;
	memset(&qp->attr, 0, sizeof(qp->attr));
}

int sim_modify_qp(struct ibv_qp *q, struct ibv_qp_attr *attr, int mask)
{
	struct sim_qp *qp = (struct sim_qp *)q;
	int from = (int)q->state;
	int to = mask & IBV_QP_STATE ? (int)attr->qp_state : from;
	int rc = qp->ctx->dead ? -EIO : check_way(from, to, mask);

	if (rc < 0)
		return rc;
	if (path_wrong(attr, mask) || number_wrong(attr, mask))
		return -EINVAL;
	apply(&qp->attr, attr, mask);
	if (to == IBV_QPS_ERR) {
		sim_qp_error(qp);
		return 0;
	}
	if (to == IBV_QPS_RESET)
		reset(qp);
	q->state = (enum ibv_qp_state)to;
	qp->notify_drained &= from == to;
	if (from != to && to == IBV_QPS_SQD)
		begin_drain(qp, mask & IBV_QP_EN_SQD_ASYNC_NOTIFY &&
					attr->en_sqd_async_notify);
	else if (from == IBV_QPS_SQD && to == IBV_QPS_RTS)
		sim_wire_start(qp);
	return 0;
}
