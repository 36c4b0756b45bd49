/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual QPs with ports: the caller posts to the physical QPs as well. Both
 * share a QP's order and room. The virtual QP keeps a list per port of its own
 * WRs in flight, and the caller tells it when the oldest of them completed.
 */
#include <endian.h>

#include "vqp/internal.h"

bool mpib_vqp_tell_own(struct mpib_vqp *v, uint64_t id)
{
	struct mpib_vwr *vw = mpib_vqp_tx(v, id);
	const struct mpib_vqp_control *c = &vw->wr.control;
	struct mpib_phys *p = &v->notifies[vw->wr.on];
	struct mpib_wr *w;

	if (!mpib_vqp_room(p))
		return false;
	w = mpib_wr_take(v->vcq->pool);
	if (!w)
		return false;
	w->owner = id;
	w->kind = MPIB_VQP_TELL;
	w->wr.num_sge = 0;
	mpib_vqp_add_sge(w, c->local, c->length, c->lkey);
	if (c->copied)
		w->wr.send_flags |= IBV_SEND_INLINE;
	w->wr.imm_data = htobe32(vw->wr.imm);
	w->wr.wr.rdma.remote_addr = c->remote;
	w->wr.wr.rdma.rkey = c->rkey;
	vw->to_tell = 0;
	vw->left++;
	mpib_vqp_enqueue(p, w);
	return true;
}

uint32_t mpib_vqp_send_room(const struct mpib_vqp *vqp)
{
	return vqp->attr.depth - (uint32_t)(vqp->tx_head - vqp->tx_tail);
}

uint32_t mpib_vqp_wrs(const struct mpib_vqp *vqp, uint64_t length)
{
	uint64_t n = (length + vqp->attr.frag - 1) / vqp->attr.frag;

	/* DQPLB numbers an empty message, too, so it takes one WR. */
	return n == 0 && vqp->attr.mode == MPIB_VQP_DQPLB ? 1 : (uint32_t)n;
}

static struct mpib_phys *phys_of(struct mpib_vqp *v, unsigned port)
{
	return port < v->attr.n ? &v->data[port]
				: &v->notifies[port - v->attr.n];
}

void mpib_vqp_port_sent(struct mpib_vqp *vqp, unsigned port, bool ok)
{
	struct mpib_phys *p = phys_of(vqp, port);
	struct mpib_vwr *vw;
	struct mpib_wr *w;

	if (STAILQ_EMPTY(&p->wrs)) {
		vqp->vcq->counts.unknown++;
		return;
	}
	w = mpib_vqp_pop(p);
	vw = mpib_vqp_tx(vqp, w->owner);
	if (ok)
		mpib_vqp_note_answer(vqp, w);
	mpib_wr_give(vqp->vcq->pool, w);
	if (ok && --vw->left == 0)
		mpib_vqp_make_ready(vqp);
}

int mpib_vqp_port_fragment(struct mpib_vqp *vqp, uint32_t imm, uint32_t bytes)
{
	int took = mpib_seq_arrived(vqp->in, imm & 0xffffff, 1, 1,
				    imm & MPIB_VQP_NOTIFY, bytes);
	bool last;

	vqp->vcq->counts.late += took == 0;
	while (mpib_seq_take(vqp->in, &last, &bytes))
		vqp->arrived += last;
	return took;
}

bool mpib_vqp_port_imm(struct mpib_vqp *vqp, uint32_t imm, uint32_t bytes)
{
	struct mpib_vrx *r;

	if (vqp->rx_head - vqp->rx_tail > vqp->mask)
		return false;
	r = mpib_vqp_rx(vqp, vqp->rx_head++);
	r->imm = imm;
	r->bytes = bytes;
	return true;
}

bool mpib_vqp_port_take(struct mpib_vqp *vqp, uint32_t *imm, uint32_t *bytes)
{
	const struct mpib_vrx *r = mpib_vqp_rx(vqp, vqp->rx_tail);

	if (vqp->rx_tail == vqp->rx_head || !vqp->arrived)
		return false;
	vqp->rx_tail++;
	vqp->arrived--;
	*imm = r->imm;
	*bytes = (uint32_t)r->bytes;
	return true;
}

uint64_t mpib_vqp_late(const struct mpib_vqp *vqp)
{
	return vqp->late + (vqp->in ? vqp->in->late : 0);
}

static void port_empty(struct mpib_phys *p, struct mpib_wr_pool *pool)
{
	while (!STAILQ_EMPTY(&p->wrs))
		mpib_wr_give(pool, mpib_vqp_pop(p));
}

void mpib_vqp_reset(struct mpib_vqp *vqp)
{
	for (unsigned i = 0; i < vqp->attr.n + vqp->attr.notifies; i++)
		port_empty(phys_of(vqp, i), vqp->vcq->pool);
	vqp->late = mpib_vqp_late(vqp);
	if (vqp->in)
		*vqp->in = (struct mpib_seq){ 0 };
	vqp->out = (struct mpib_seq_sent){ 0 };
	vqp->seq = 0;
	vqp->untold = 0;
	vqp->tx_tail = vqp->tx_next = vqp->tx_head;
	vqp->rx_tail = vqp->rx_head;
	vqp->arrived = 0;
	mpib_vqp_leave(vqp);
}
