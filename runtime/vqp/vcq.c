/* SPDX-License-Identifier: Apache-2.0 */
/* The virtual CQ: polls the physical CQs, routes each completion to its virtual
 * QP, and reports virtual completions in order. */
#include <errno.h>
#include <stdlib.h>

#include "vqp/internal.h"

#define BATCHES 8 /* of BATCH completions, per device and poll */
#define BATCH 32

int mpib_vcq_create(struct ibv_cq *const *cqs, unsigned n,
		    struct mpib_wr_pool *pool, struct mpib_vcq **vcq)
{
	struct mpib_vcq *c;

	if (n > MPIB_VQP_DEVICES)
		return -EINVAL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++)
		c->cq[i] = cqs[i];
	c->n = n;
	c->pool = pool;
	TAILQ_INIT(&c->busy);
	TAILQ_INIT(&c->ready);
	LIST_INIT(&c->dirty);
	*vcq = c;
	return 0;
}

void mpib_vcq_destroy(struct mpib_vcq *vcq)
{
	free(vcq);
}

void mpib_vcq_read_counts(const struct mpib_vcq *vcq, struct mpib_vcq_counts *n)
{
	*n = vcq->counts;
}

/* Find the QP by device and QP number, and compare the QP index in wr_id:
 * qp_num and wr_id are valid on errors, too. */
static void vcq_route(struct mpib_vcq *vcq, unsigned device,
		      const struct ibv_wc *wc)
{
	struct mpib_phys_key key = { device, wc->qp_num };
	struct mpib_phys *p;

	HASH_FIND(hh, vcq->known, &key, sizeof(key), p);
	if (!p || (wc->wr_id >> 40 & 0xffff) != p->index) {
		vcq->counts.unknown++;
		return;
	}
	switch ((enum mpib_vqp_kind)(wc->wr_id >> 56)) {
	case MPIB_VQP_DATA:
	case MPIB_VQP_TELL:
	case MPIB_VQP_PASS:
		mpib_vqp_sent(p, wc);
		break;
	case MPIB_VQP_RECV:
	case MPIB_VQP_RECV_PASS:
		mpib_vqp_received(p, wc);
		break;
	default:
		vcq->counts.unknown++;
		return;
	}
	mpib_vqp_make_ready(p->vqp);
}

/* False: the CQ cannot be polled. */
static bool vcq_drain(struct mpib_vcq *vcq, unsigned device)
{
	struct ibv_wc wc[BATCH];

	for (unsigned b = 0; b < BATCHES; b++) {
		int n = ibv_poll_cq(vcq->cq[device], BATCH, wc);

		for (int i = 0; i < n; i++)
			vcq_route(vcq, device, &wc[i]);
		if (n < 0)
			return false;
		vcq->counts.cqes += (unsigned)n;
		if (n < BATCH)
			return true;
	}
	return true;
}

static bool take_sent(struct mpib_vqp *v, struct mpib_vwc *wc)
{
	while (v->tx_tail != v->tx_next) {
		struct mpib_vwr *w = mpib_vqp_tx(v, v->tx_tail);

		if (!w->dispatched || w->left || w->to_tell)
			return false;
		v->tx_tail++;
		/* An unsignalled WR is reported only if it failed. */
		if (!(w->wr.flags & IBV_SEND_SIGNALED) &&
		    w->status == IBV_WC_SUCCESS)
			continue;
		*wc = (struct mpib_vwc){
			.wr_id = w->wr.wr_id,
			.status = w->status,
			.error = w->error,
			.qp_num = v->attr.number,
		};
		return true;
	}
	return false;
}

static bool take_received(struct mpib_vqp *v, struct mpib_vwc *wc)
{
	struct mpib_vrx *r = mpib_vqp_rx(v, v->rx_tail);

	if (v->rx_tail == v->rx_head || !r->done)
		return false;
	v->rx_tail++;
	if (v->rx_next < v->rx_tail)
		v->rx_next = v->rx_tail;
	*wc = (struct mpib_vwc){
		.wr_id = r->wr_id,
		.status = r->status,
		.error = r->error,
		.recv = true,
		.qp_num = v->attr.number,
		.imm = r->imm,
		.has_imm = r->has_imm,
		.bytes = r->bytes,
	};
	return true;
}

bool mpib_vcq_busy(const struct mpib_vcq *vcq)
{
	return !TAILQ_EMPTY(&vcq->busy);
}

void mpib_vqp_leave(struct mpib_vqp *v)
{
	if (v->busy)
		TAILQ_REMOVE(&v->vcq->busy, v, busy_link);
	if (v->ready)
		TAILQ_REMOVE(&v->vcq->ready, v, ready_link);
	v->busy = v->ready = false;
}

static void advance_all(struct mpib_vcq *vcq)
{
	struct mpib_vqp *v, *next;

	for (v = TAILQ_FIRST(&vcq->busy); v; v = next) {
		next = TAILQ_NEXT(v, busy_link);
		mpib_vqp_advance(v);
		if (v->tx_tail != v->tx_head)
			continue;
		v->busy = false;
		TAILQ_REMOVE(&vcq->busy, v, busy_link);
	}
	mpib_vqp_flush(vcq);
}

int mpib_vcq_poll(struct mpib_vcq *vcq, int n, struct mpib_vwc *wc)
{
	bool polled = true;
	int got;

	for (unsigned i = 0; i < vcq->n; i++)
		polled &= vcq_drain(vcq, (vcq->first + i) % vcq->n);
	vcq->first = vcq->n ? (vcq->first + 1) % vcq->n : 0;
	got = mpib_vcq_take(vcq, n, wc);
	return got || polled ? got : -EIO;
}

int mpib_vcq_take(struct mpib_vcq *vcq, int n, struct mpib_vwc *wc)
{
	struct mpib_vqp *v;
	int got = 0;

	advance_all(vcq);
	while (got < n && (v = TAILQ_FIRST(&vcq->ready))) {
		if (take_sent(v, &wc[got]) || take_received(v, &wc[got])) {
			got++;
			continue;
		}
		v->ready = false;
		TAILQ_REMOVE(&vcq->ready, v, ready_link);
	}
	return got;
}
