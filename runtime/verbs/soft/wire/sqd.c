/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state SQD (send queue drain): requests that were begun are carried to
 * their end, sent again where that is needed; those posted later wait until the
 * QP is in RTS again. Requests of the peer are served as in RTS.
 */
#include "verbs/soft/wire/rc.h"

#include "verbs/soft/event.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/wire/conn.h"

static uint32_t later(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0 ? a : b;
}

void soft_sqd_begin(struct soft_qp *qp, bool notify)
{
	const struct soft_conn *conn = qp->conn;

	qp->sq_stop = qp->sq_top;
	if (qp->sq_off)
		qp->sq_stop = later(qp->sq_stop, qp->sq_next + 1);
	if (conn && conn->has_cur && conn->cur.kind == SOFT_ITEM_WQE)
		qp->sq_stop = later(qp->sq_stop, conn->cur.idx + 1);
	qp->sqd_notify = notify;
	soft_sqd_look(qp);
}

void soft_sqd_look(struct soft_qp *qp)
{
	if (!qp->sqd_notify || qp->sq_una != qp->sq_stop)
		return;
	qp->sqd_notify = false;
	soft_event(qp->ctx, &qp->ev, IBV_EVENT_SQ_DRAINED);
}

void soft_sqd_end(struct soft_qp *qp)
{
	qp->sqd_notify = false;
	soft_tx_start(qp);
}

bool soft_sqd_draining(struct soft_qp *qp)
{
	return qp_state(qp) == IBV_QPS_SQD && qp->sq_una != qp->sq_stop;
}
