/* SPDX-License-Identifier: Apache-2.0 */
/* Change the states of queue pairs. */
#include <errno.h>
#include <string.h>

#include "sim_hca.h"
#include "verbs/soft/qp.h"

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
	int rc = qp->ctx->dead ? -EIO : soft_modify_check(from, attr, mask);

	if (rc == 0 && to == IBV_QPS_SQD)
		rc = -EOPNOTSUPP;
	if (rc < 0)
		return rc;
	soft_modify_apply(&qp->attr, attr, mask);
	if (to == IBV_QPS_ERR) {
		sim_qp_error(qp);
		return 0;
	}
	if (to == IBV_QPS_RESET)
		reset(qp);
	q->state = (enum ibv_qp_state)to;
	return 0;
}
