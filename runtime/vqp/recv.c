/* SPDX-License-Identifier: Apache-2.0 */
/* Receives: order the arrivals of all QPs and complete virtual receives. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>

#include "vqp/internal.h"

/* Post empty receives until the QP has `cap` receives. Post none while `depth`
 * whole messages wait for the caller's receives. Then the peer's IMMs must
 * wait, too (RNR). */
static int recv_replenish(struct mpib_phys *p)
{
	struct ibv_sge none = { 0 };

	p->vqp->held_back |= p->vqp->arrived >= p->vqp->attr.depth;
	while (!p->dead && p->recvs < p->vqp->attr.cap && !p->vqp->held_back &&
	       !p->vqp->broken) {
		struct ibv_recv_wr *bad, wr = {
			.wr_id = mpib_vqp_wr_id(MPIB_VQP_RECV, p),
			.sg_list = &none,
		};
		int rc = ibv_post_recv(p->qp, &wr, &bad);

		if (rc)
			return -rc;
		p->recvs++;
	}
	return 0;
}

int mpib_vqp_prepare(struct mpib_vqp *vqp)
{
	int rc = 0;

	if (!vqp->multi)
		return 0;
	if (vqp->attr.mode == MPIB_VQP_SPRAY) {
		for (unsigned i = 0; rc == 0 && i < vqp->attr.notifies; i++)
			rc = recv_replenish(&vqp->notifies[i]);
		return rc;
	}
	for (unsigned i = 0; rc == 0 && i < vqp->attr.n; i++)
		rc = recv_replenish(&vqp->data[i]);
	return rc;
}

static void recv_finish(struct mpib_vqp *v, struct mpib_vrx *r,
			enum ibv_wc_status status, int error, uint64_t bytes)
{
	r->done = true;
	r->status = status;
	r->error = error;
	r->bytes = bytes;
	mpib_vqp_make_ready(v);
}

void mpib_vqp_fail_recvs(struct mpib_vqp *v, enum ibv_wc_status status,
			 int error)
{
	for (uint64_t id = v->rx_tail; id != v->rx_head; id++) {
		struct mpib_vrx *r = mpib_vqp_rx(v, id);

		/* Do not fail a receive that passes through: until the receive
		 * is flushed, the QP may still write to its memory. */
		if (!r->done && !r->pass)
			recv_finish(v, r, status, error, 0);
	}
	v->rx_next = v->rx_head;
}

/* Handle a whole message: complete the oldest empty receive, or store the
 * message's size in `early` until a receive is posted. */
static void recv_notify(struct mpib_vqp *v, uint64_t bytes)
{
	while (v->rx_next != v->rx_head) {
		struct mpib_vrx *r = mpib_vqp_rx(v, v->rx_next++);

		if (r->pass)
			continue;
		recv_finish(v, r, IBV_WC_SUCCESS, 0, bytes);
		return;
	}
	/* `early` has room for `depth` messages, at which recv_replenish()
	 * stops, plus one message per physical receive, plus all messages that
	 * one missing number can hold back. */
	v->early[(v->early_tail + v->arrived++) & v->early_mask] = bytes;
}

static void recv_arrived(struct mpib_phys *p, uint32_t imm, uint32_t bytes)
{
	struct mpib_vqp *v = p->vqp;
	uint32_t len;
	bool last;
	int took;

	if (v->attr.mode == MPIB_VQP_DQPLB)
		took = mpib_seq_arrived(v->in, imm & 0xffffff, 1, 1,
					imm & MPIB_VQP_NOTIFY, bytes);
	else
		took = mpib_seq_arrived(v->in, imm & 0xffffff,
					(uint8_t)(imm >> 28),
					(uint8_t)(imm >> 24 & 15), true, bytes);
	v->vcq->counts.late += took == 0;
	if (took < 0)
		mpib_vqp_end(v, IBV_WC_GENERAL_ERR, took);
	while (mpib_seq_take(v->in, &last, &len)) {
		v->bytes += len;
		if (!last)
			continue;
		recv_notify(v, v->bytes);
		v->bytes = 0;
	}
}

/* Handle the completion of a receive that passes through: it got a SEND, or the
 * virtual QP has a single QP. QP 0 completes such receives in the order
 * posted. */
static void recv_passed(struct mpib_vqp *v, const struct ibv_wc *wc)
{
	for (uint64_t id = v->rx_tail; id != v->rx_head; id++) {
		struct mpib_vrx *r = mpib_vqp_rx(v, id);

		if (!r->pass || r->done)
			continue;
		recv_finish(v, r, wc->status, 0,
			    wc->status == IBV_WC_SUCCESS ? wc->byte_len : 0);
		if (wc->status == IBV_WC_SUCCESS &&
		    wc->wc_flags & IBV_WC_WITH_IMM) {
			r->has_imm = true;
			r->imm = be32toh(wc->imm_data);
		}
		return;
	}
	v->vcq->counts.unknown++;
}

/* Handle a receive completion of p. */
static void vqp_received(struct mpib_phys *p, const struct ibv_wc *wc)
{
	struct mpib_vqp *v = p->vqp;
	int rc;

	if (p->recvs == 0) {
		v->vcq->counts.unknown++;
		return;
	}
	p->recvs--;
	if (wc->wr_id >> 56 == MPIB_VQP_RECV_PASS) {
		recv_passed(v, wc);
		if (wc->status != IBV_WC_SUCCESS)
			mpib_vqp_bury(p);
		return;
	}
	if (wc->status != IBV_WC_SUCCESS) {
		/* Fragments that the peer had in flight on this QP may be lost.
		 * Without replay, the numbers of lost fragments never
		 * arrive. */
		v->broken |= !v->attr.replay;
		mpib_vqp_bury(p);
		return;
	}
	recv_arrived(p, be32toh(wc->imm_data), wc->byte_len);
	/* If a QP had no posted receives, the peer would stall. */
	rc = recv_replenish(p);
	if (rc < 0) {
		mpib_vqp_bury(p);
		mpib_vqp_fail_recvs(v, IBV_WC_LOC_QP_OP_ERR, rc);
	}
}

static int post_pass(struct mpib_vqp *v, const struct mpib_vrecv *wr)
{
	struct mpib_phys *p = &v->data[0];
	struct ibv_sge sge = { .addr = wr->addr,
			       .length = wr->length,
			       .lkey = wr->lkey };
	struct ibv_recv_wr *bad, rwr = {
		.wr_id = mpib_vqp_wr_id(MPIB_VQP_RECV_PASS, p),
		.sg_list = &sge,
		.num_sge = wr->length > 0,
	};

	int rc = p->dead ? -ENETDOWN : -ibv_post_recv(p->qp, &rwr, &bad);

	p->recvs += rc == 0;
	return rc;
}

int mpib_vqp_post_recv(struct mpib_vqp *vqp, const struct mpib_vrecv *wr)
{
	bool pass = !vqp->multi || wr->length > 0;
	struct mpib_vrx *r;
	int rc;

	if (vqp->attr.ports || (pass && !mpib_vqp_passes(vqp)))
		return -EINVAL;
	if (vqp->rx_head - vqp->rx_tail > vqp->mask)
		return -EAGAIN;
	if (!mpib_vqp_healthy(vqp))
		return -ENETDOWN;
	if (pass) {
		rc = post_pass(vqp, wr);
		if (rc < 0)
			return rc;
	}
	r = mpib_vqp_rx(vqp, vqp->rx_head++);
	*r = (struct mpib_vrx){ .wr_id = wr->wr_id, .pass = pass };
	if (!pass && vqp->arrived) {
		uint64_t bytes =
			vqp->early[vqp->early_tail++ & vqp->early_mask];

		vqp->arrived--;
		/* All older receives pass through or have matched a message. */
		vqp->rx_next = vqp->rx_head;
		recv_finish(vqp, r, IBV_WC_SUCCESS, 0, bytes);
	}
	if (vqp->held_back && vqp->arrived < vqp->attr.depth) {
		vqp->held_back = false;
		rc = mpib_vqp_prepare(vqp);
		if (rc < 0)
			mpib_vqp_fail_recvs(vqp, IBV_WC_LOC_QP_OP_ERR, rc);
	}
	return 0;
}

/* The virtual CQ polls the physical CQs, passes each completion to its virtual
 * QP, and reports virtual completions in order. */

#define BATCHES 8 /* batches of BATCH completions, per device and poll */
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
		vqp_received(p, wc);
		break;
	default:
		vcq->counts.unknown++;
		return;
	}
	mpib_vqp_make_ready(p->vqp);
}

/* Poll a device's CQ. Return false if that fails. */
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
