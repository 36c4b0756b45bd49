/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim_hca.h"
#include "sim_task.h"
#include "sim_wrap.h"

#define FIRST_ROOM 256

int sim_create_channel(struct ibv_context *c, struct ibv_comp_channel **out)
{
	struct sim_ctx *ctx = sim_ctx(c);
	struct sim_channel *ch;

	if (ctx->dead)
		return -EIO;
	ch = calloc(1, sizeof(*ch));
	if (!ch)
		return -ENOMEM;
	ch->file = sim_counter_new(true);
	ch->ibv.context = c;
	ch->ibv.fd = sim_fd_new(ch->file);
	ctx->channels++;
	*out = &ch->ibv;
	return 0;
}

int sim_destroy_channel(struct ibv_comp_channel *ch)
{
	struct sim_channel *c = (struct sim_channel *)ch;

	if (c->cq)
		return -EBUSY;
	sim_ctx(ch->context)->channels--;
	__wrap_close(ch->fd);
	free(c);
	return 0;
}

int sim_create_cq(struct ibv_context *c, int cqe, void *context,
		  struct ibv_comp_channel *ch, struct ibv_cq **out)
{
	struct sim_ctx *ctx = sim_ctx(c);
	struct sim_cq *cq;

	if (ctx->dead)
		return -EIO;
	if (cqe < 1 || cqe > SIM_CQE)
		return -EINVAL;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	cq->room = FIRST_ROOM;
	cq->ring = calloc(cq->room, sizeof(*cq->ring));
	if (!cq->ring)
		abort();
	cq->ibv.context = c;
	cq->ibv.channel = ch;
	cq->ibv.cq_context = context;
	cq->ibv.cqe = cqe;
	if (ch)
		((struct sim_channel *)ch)->cq = cq;
	ctx->cqs++;
	*out = &cq->ibv;
	return 0;
}

int sim_destroy_cq(struct ibv_cq *cq)
{
	struct sim_cq *q = (struct sim_cq *)cq;

	if (q->refs)
		return -EBUSY;
	sim_event_disarm(&q->show);
	sim_hca_forget_notes(sim_ctx(cq->context), q);
	if (cq->channel)
		((struct sim_channel *)cq->channel)->cq = NULL;
	sim_ctx(cq->context)->cqs--;
	free(q->ring);
	free(q);
	return 0;
}

int sim_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq,
		     void **context)
{
	struct sim_channel *c = (struct sim_channel *)ch;
	uint64_t one;

	if (__wrap_read(ch->fd, &one, sizeof(one)) < 0)
		return -errno;
	if (!c->cq)
		return -EAGAIN;
	*cq = &c->cq->ibv;
	*context = c->cq->ibv.cq_context;
	return 0;
}

void sim_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
	(void)cq;
	(void)n;
}

int sim_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	struct sim_cq *q = (struct sim_cq *)cq;

	q->solicited_only = solicited_only && (!q->armed || q->solicited_only);
	q->armed = true;
	return 0;
}

static void cq_tell(struct sim_cq *q, bool solicited)
{
	if (!q->armed || !q->ibv.channel || (q->solicited_only && !solicited))
		return;
	q->armed = false;
	sim_counter_add(((struct sim_channel *)q->ibv.channel)->file, 1);
}

static void on_show(void *arg)
{
	struct sim_cq *q = arg;

	/* If the process has ended, the channel no longer has a descriptor. */
	if (sim_ctx(q->ibv.context)->ended)
		return;
	while (q->shown != q->made) {
		const struct sim_cqe *e = &q->ring[q->shown % q->room];

		if (e->at > sim_now) {
			sim_event_arm(&q->show, e->at, on_show, q);
			return;
		}
		q->shown++;
		if (e->qp)
			cq_tell(q, e->solicited);
	}
}

static void cq_grow(struct sim_cq *q)
{
	struct sim_cqe *ring = calloc(2 * (size_t)q->room, sizeof(*ring));

	if (!ring)
		abort();
	for (uint32_t i = q->head; i != q->made; i++)
		ring[i % (2 * q->room)] = q->ring[i % q->room];
	free(q->ring);
	q->ring = ring;
	q->room *= 2;
}

void sim_cq_push(struct ibv_cq *cq, struct sim_qp *qp, const struct ibv_wc *wc,
		 bool sent, uint32_t done, bool solicited)
{
	struct sim_cq *q = (struct sim_cq *)cq;
	struct sim_cqe *e, *last;

	if (!q->overrun && q->made - q->head == (uint32_t)cq->cqe) {
		q->overrun = true;
		sim_hca_note(sim_ctx(cq->context), IBV_EVENT_CQ_ERR, cq);
	}
	if (q->overrun) {
		sim_qp_fatal(qp);
		return;
	}
	if (q->made - q->head == q->room)
		cq_grow(q);
	last = q->made != q->shown ? &q->ring[(q->made - 1) % q->room] : NULL;
	e = &q->ring[q->made++ % q->room];
	*e = (struct sim_cqe){
		.wc = *wc,
		.qp = qp,
		.at = sim_now,
		.done = done,
		.sent = sent,
		.solicited = solicited || wc->status != IBV_WC_SUCCESS,
	};
	/* Let polls return some completions long after the messages were
	 * acknowledged. On a software HCA, do not delay completions: the poll
	 * that handles an acknowledgement returns the completion. */
	if (wc->status == IBV_WC_SUCCESS && sim_hca_draw(4) == 0 &&
	    !sim_hca_is_soft())
		e->at += sim_hca_draw(20 * SIM_US);
	if (last && e->at < last->at)
		e->at = last->at;
	on_show(q);
}

void sim_cq_forget(struct ibv_cq *cq, const struct sim_qp *qp)
{
	struct sim_cq *q = (struct sim_cq *)cq;

	for (uint32_t i = q->head; i != q->made; i++) {
		if (q->ring[i % q->room].qp == qp)
			q->ring[i % q->room].qp = NULL;
	}
}

/* The conformance suite runs without tasks, so let virtual time pass in each
 * poll. */
static void pass_time(void)
{
	if (sim_task_self())
		return;
	sim_now += 20 * SIM_US;
	sim_events_run();
}

int sim_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct sim_cq *q = (struct sim_cq *)cq;
	struct sim_ctx *ctx = sim_ctx(cq->context);
	int got = 0;

	pass_time();
	ctx->turns += ctx->device->still_until <= sim_now;
	for (; got < n && q->head != q->shown; q->head++) {
		const struct sim_cqe *e = &q->ring[q->head % q->room];

		if (!e->qp)
			continue;
		if (e->sent && (int32_t)(e->done - e->qp->sq_free) > 0)
			e->qp->sq_free = e->done;
		wc[got++] = e->wc;
	}
	return got;
}
