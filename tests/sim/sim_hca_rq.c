/* SPDX-License-Identifier: Apache-2.0 */
/* Simulate receive queues of QPs and shared receive queues. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim_hca.h"

void sim_rq_init(struct sim_rq *rq, uint32_t wr, uint32_t sge)
{
	rq->room = 1;
	while (rq->room < wr)
		rq->room *= 2;
	rq->most_sge = sge;
	rq->ring = malloc(rq->room * sizeof(*rq->ring));
	if (!rq->ring)
		abort();
}

void sim_rq_fini(struct sim_rq *rq)
{
	free(rq->ring);
	free(rq->sge);
}

/* Copy the SGEs of a receive. Most receives have none, because they receive
 * only an IMM. */
static void set_sges(struct sim_rq *rq, struct sim_rwqe *w,
		     const struct ibv_recv_wr *wr)
{
	size_t most = rq->most_sge;

	w->sges = wr->num_sge;
	if (!wr->num_sge)
		return;
	if (!rq->sge)
		rq->sge = malloc(rq->room * most * sizeof(*rq->sge));
	if (!rq->sge)
		abort();
	w->sge = &rq->sge[rq->tail % rq->room * most];
	memcpy(w->sge, wr->sg_list, (size_t)wr->num_sge * sizeof(*w->sge));
}

static int rq_post(struct sim_rq *rq, struct ibv_recv_wr *wr,
		   struct ibv_recv_wr **bad)
{
	for (; wr; wr = wr->next) {
		struct sim_rwqe *w = &rq->ring[rq->tail % rq->room];
		int rc = 0;

		if (rq->tail - rq->head == rq->room)
			rc = ENOMEM;
		else if (wr->num_sge < 0 ||
			 (uint32_t)wr->num_sge > rq->most_sge)
			rc = EINVAL;
		if (rc) {
			*bad = wr;
			return rc;
		}
		w->id = wr->wr_id;
		set_sges(rq, w, wr);
		rq->tail++;
	}
	return 0;
}

int sim_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr,
		   struct ibv_srq **out)
{
	struct sim_ctx *ctx = sim_ctx(pd->context);
	struct sim_srq *srq;

	if (ctx->dead)
		return -EIO;
	if (!attr->attr.max_wr || attr->attr.max_wr > SIM_WR ||
	    attr->attr.max_sge > SIM_SGE)
		return -EINVAL;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return -ENOMEM;
	sim_rq_init(&srq->rq, attr->attr.max_wr, attr->attr.max_sge);
	attr->attr.max_wr = srq->rq.room;
	srq->ibv.context = pd->context;
	srq->ibv.srq_context = attr->srq_context;
	srq->ibv.pd = pd;
	((struct sim_pd *)pd)->refs++;
	ctx->srqs++;
	*out = &srq->ibv;
	return 0;
}

int sim_modify_srq(struct ibv_srq *s, struct ibv_srq_attr *attr, int mask)
{
	struct sim_srq *srq = (struct sim_srq *)s;

	if (sim_ctx(s->context)->dead)
		return -EIO;
	if (mask & IBV_SRQ_MAX_WR)
		return -EOPNOTSUPP;
	if (mask & ~IBV_SRQ_LIMIT)
		return -EINVAL;
	if (!mask)
		return 0;
	if (attr->srq_limit > srq->rq.room)
		return -EINVAL;
	srq->limit = attr->srq_limit;
	return 0;
}

int sim_query_srq(struct ibv_srq *s, struct ibv_srq_attr *attr)
{
	const struct sim_srq *srq = (struct sim_srq *)s;

	*attr = (struct ibv_srq_attr){ .max_wr = srq->rq.room,
				       .max_sge = srq->rq.most_sge,
				       .srq_limit = srq->limit };
	return 0;
}

int sim_destroy_srq(struct ibv_srq *s)
{
	struct sim_srq *srq = (struct sim_srq *)s;

	if (srq->refs)
		return -EBUSY;
	sim_hca_forget_notes(sim_ctx(s->context), s);
	((struct sim_pd *)s->pd)->refs--;
	sim_ctx(s->context)->srqs--;
	sim_rq_fini(&srq->rq);
	free(srq);
	return 0;
}

int sim_post_srq_recv(struct ibv_srq *s, struct ibv_recv_wr *wr,
		      struct ibv_recv_wr **bad)
{
	if (sim_ctx(s->context)->dead) {
		*bad = wr;
		return EIO;
	}
	return rq_post(&((struct sim_srq *)s)->rq, wr, bad);
}

int sim_post_recv(struct ibv_qp *q, struct ibv_recv_wr *wr,
		  struct ibv_recv_wr **bad)
{
	struct sim_qp *qp = (struct sim_qp *)q;
	int rc;

	if (qp->ibv.state == IBV_QPS_RESET || q->srq) {
		*bad = wr;
		return EINVAL;
	}
	rc = rq_post(&qp->rq, wr, bad);
	if (qp->ibv.state == IBV_QPS_ERR && !qp->ctx->dead)
		sim_qp_error(qp);
	return rc;
}

static struct sim_rq *rq_of(struct sim_qp *qp)
{
	return qp->ibv.srq ? &((struct sim_srq *)qp->ibv.srq)->rq : &qp->rq;
}

struct sim_rwqe *sim_recv_next(struct sim_qp *qp)
{
	struct sim_rq *rq = rq_of(qp);

	return rq->head == rq->tail ? NULL : &rq->ring[rq->head % rq->room];
}

void sim_recv_taken(struct sim_qp *qp)
{
	struct sim_srq *srq = (struct sim_srq *)qp->ibv.srq;
	struct sim_rq *rq = rq_of(qp);

	rq->head++;
	if (!srq || !srq->limit || rq->tail - rq->head >= srq->limit)
		return;
	srq->limit = 0;
	sim_hca_note(qp->ctx, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
}
