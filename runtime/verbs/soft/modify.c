/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/soft/modify.h"

#include <errno.h>

#include "verbs/soft/gid.h"
#include "verbs/soft/qp.h"

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
