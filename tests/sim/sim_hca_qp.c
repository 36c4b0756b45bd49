/* SPDX-License-Identifier: Apache-2.0 */
/* Create and destroy queue pairs, and choose their numbers. */
#include <errno.h>
#include <stdlib.h>

#include "sim_hca.h"

#define NUMBERS 65536
#define FIRST 0x100 /* QP numbers 0 and 1 are reserved */

/* The QPs, indexed by the low bits of their numbers. The high bits of a number
 * count how often its entry was used. */
static struct sim_qp *by_number[NUMBERS];
static uint32_t next_number = FIRST;

struct sim_qp *sim_qp_find(uint32_t number)
{
	struct sim_qp *qp = by_number[number % NUMBERS];

	return qp && qp->ibv.qp_num == number ? qp : NULL;
}

void sim_qp_unlist(struct sim_qp *qp)
{
	if (by_number[qp->ibv.qp_num % NUMBERS] == qp)
		by_number[qp->ibv.qp_num % NUMBERS] = NULL;
}

static void number(struct sim_qp *qp)
{
	do {
		next_number = (next_number + 1) & 0xffffff;
	} while (by_number[next_number % NUMBERS] || next_number < FIRST);
	qp->ibv.qp_num = qp->ibv.handle = next_number;
	by_number[next_number % NUMBERS] = qp;
}

static int check(const struct ibv_qp_init_attr *a)
{
	const struct ibv_qp_cap *c = &a->cap;

	if (a->qp_type != IBV_QPT_RC)
		return -EOPNOTSUPP;
	if (!a->send_cq || !a->recv_cq || c->max_send_wr > SIM_WR ||
	    c->max_send_sge > SIM_SGE || c->max_inline_data > SIM_INLINE)
		return -EINVAL;
	if (!a->srq && (c->max_recv_wr > SIM_WR || c->max_recv_sge > SIM_SGE))
		return -EINVAL;
	return 0;
}

static void use(struct sim_qp *qp, unsigned by)
{
	((struct sim_pd *)qp->ibv.pd)->refs += by;
	((struct sim_cq *)qp->ibv.send_cq)->refs += by;
	((struct sim_cq *)qp->ibv.recv_cq)->refs += by;
	if (qp->ibv.srq)
		((struct sim_srq *)qp->ibv.srq)->refs += by;
	qp->ctx->qps += by;
}

int sim_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
		  struct ibv_qp **out)
{
	struct sim_ctx *ctx = sim_ctx(pd->context);
	int rc = ctx->dead ? -EIO : check(attr);
	struct sim_qp *qp;

	if (rc < 0)
		return rc;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	qp->ctx = ctx;
	qp->all_signaled = attr->sq_sig_all;
	qp->ibv.context = pd->context;
	qp->ibv.qp_context = attr->qp_context;
	qp->ibv.pd = pd;
	qp->ibv.send_cq = attr->send_cq;
	qp->ibv.recv_cq = attr->recv_cq;
	qp->ibv.srq = attr->srq;
	qp->ibv.qp_type = attr->qp_type;
	qp->sq_room = 1;
	while (qp->sq_room < attr->cap.max_send_wr)
		qp->sq_room *= 2;
	attr->cap.max_send_wr = qp->sq_room;
	if (attr->srq) {
		attr->cap.max_recv_wr = attr->cap.max_recv_sge = 0;
	} else {
		sim_rq_init(&qp->rq, attr->cap.max_recv_wr,
			    attr->cap.max_recv_sge);
		attr->cap.max_recv_wr = qp->rq.room;
	}
	qp->cap = attr->cap;
	number(qp);
	use(qp, 1);
	LIST_INSERT_HEAD(&ctx->all_qps, qp, link);
	*out = &qp->ibv;
	return 0;
}

int sim_query_qp(struct ibv_qp *q, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	const struct sim_qp *qp = (struct sim_qp *)q;

	if (mask & ~(IBV_QP_RATE_LIMIT - 1))
		return -EOPNOTSUPP;
	*attr = qp->attr;
	attr->cap = qp->cap;
	attr->qp_state = attr->cur_qp_state = q->state;
	if (init)
		*init = (struct ibv_qp_init_attr){
			.qp_context = q->qp_context,
			.send_cq = q->send_cq,
			.recv_cq = q->recv_cq,
			.srq = q->srq,
			.cap = qp->cap,
			.qp_type = q->qp_type,
			.sq_sig_all = qp->all_signaled,
		};
	return 0;
}

int sim_destroy_qp(struct ibv_qp *q)
{
	struct sim_qp *qp = (struct sim_qp *)q;

	sim_qp_quiet(qp);
	sim_qp_unlist(qp);
	sim_cq_forget(q->send_cq, qp);
	sim_cq_forget(q->recv_cq, qp);
	sim_hca_forget_notes(qp->ctx, q);
	LIST_REMOVE(qp, link);
	use(qp, (unsigned)-1);
	for (uint32_t i = 0; i < qp->sq_made; i++)
		free(qp->sq[i].copied);
	free(qp->sq);
	sim_rq_fini(&qp->rq);
	free(qp);
	return 0;
}
