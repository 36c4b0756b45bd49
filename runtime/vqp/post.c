/* SPDX-License-Identifier: Apache-2.0 */
/* Posting fragments to physical QPs, and handling their send completions. */
#include <endian.h>
#include <errno.h>
#include <mpib/wr_pool.h>
#include <stddef.h>
#include <stdlib.h>

#include "vqp/internal.h"

bool mpib_vqp_room(const struct mpib_phys *p)
{
	const struct mpib_vqp *v = p->vqp;

	return !p->dead && p->inflight < v->attr.cap &&
	       (!v->attr.ports || v->ports.room(v->ports.ctx, p->index));
}

struct mpib_phys *mpib_vqp_pick(struct mpib_vqp *v)
{
	for (unsigned i = 0; i < v->attr.n; i++) {
		struct mpib_phys *p = &v->data[v->turn];

		v->turn = v->turn + 1 == v->attr.n ? 0 : v->turn + 1;
		if (mpib_vqp_room(p))
			return p;
	}
	return NULL;
}

struct mpib_phys *mpib_vqp_pick_of(struct mpib_vqp *v, unsigned device)
{
	for (unsigned i = 0; i < v->attr.n; i++) {
		struct mpib_phys *p = &v->data[v->turn_of[device]];

		v->turn_of[device] = v->turn_of[device] + 1 == v->attr.n
					     ? 0
					     : v->turn_of[device] + 1;
		if (p->device == device && mpib_vqp_room(p))
			return p;
	}
	return NULL;
}

void mpib_vqp_enqueue(struct mpib_phys *p, struct mpib_wr *w)
{
	struct mpib_vqp *v = p->vqp;

	p->count++;
	w->wr.wr_id = mpib_vqp_wr_id((enum mpib_vqp_kind)w->kind, p);
	STAILQ_INSERT_TAIL(&p->wrs, w, link);
	p->inflight++;
	if (v->attr.ports) {
		v->vcq->counts.wrs++;
		v->ports.post(v->ports.ctx, p->index, w,
			      mpib_vqp_tx(v, w->owner)->wr.wr_id);
		return;
	}
	mpib_wr_chain_add(&p->chain, w);
	if (!p->dirty) {
		p->dirty = true;
		LIST_INSERT_HEAD(&p->vqp->vcq->dirty, p, ring_link);
	}
}

bool mpib_vqp_fragment(struct mpib_phys *p, uint64_t id, uint64_t off,
		       uint32_t len, enum mpib_vqp_kind kind,
		       enum ibv_wr_opcode opcode, uint32_t imm)
{
	struct mpib_vwr *v = mpib_vqp_tx(p->vqp, id);
	struct mpib_wr *w = mpib_wr_take(p->vqp->vcq->pool);
	const struct mpib_vqp_key *key = &v->wr.key[p->device];
	const struct mpib_vqp_head *head = &v->wr.head;

	if (!w)
		return false;
	w->owner = id;
	w->kind = (uint8_t)kind;
	/* Leave sg_list set: some drivers read it even if num_sge is 0. */
	w->wr.num_sge = 0;
	w->wr.wr.rdma.remote_addr = v->wr.remote + off;
	if (kind != MPIB_VQP_TELL && off == 0)
		mpib_vqp_add_sge(w, head->local, head->length,
				 head->lkey[p->device]);
	else
		w->wr.wr.rdma.remote_addr += head->length;
	mpib_vqp_add_sge(w, v->wr.local + off, len, key->lkey);
	w->wr.opcode = opcode;
	w->wr.imm_data = htobe32(imm);
	w->wr.wr.rdma.rkey = key->rkey;
	v->left++;
	mpib_vqp_enqueue(p, w);
	return true;
}

void mpib_vqp_note_answer(struct mpib_vqp *v, const struct mpib_wr *w)
{
	if (v->in && v->attr.mode == MPIB_VQP_DQPLB && w->kind == MPIB_VQP_DATA)
		mpib_seq_answered(&v->out, be32toh(w->wr.imm_data) & 0xffffff);
}

void mpib_vqp_make_busy(struct mpib_vqp *v)
{
	if (v->busy)
		return;
	v->busy = true;
	TAILQ_INSERT_TAIL(&v->vcq->busy, v, busy_link);
}

void mpib_vqp_make_ready(struct mpib_vqp *v)
{
	if (v->ready)
		return;
	v->ready = true;
	TAILQ_INSERT_TAIL(&v->vcq->ready, v, ready_link);
}

struct mpib_wr *mpib_vqp_pop(struct mpib_phys *p)
{
	struct mpib_wr *w = STAILQ_FIRST(&p->wrs);

	STAILQ_REMOVE_HEAD(&p->wrs, link);
	p->inflight--;
	return w;
}

void mpib_vqp_flush(struct mpib_vcq *vcq)
{
	struct mpib_phys *p;

	while ((p = LIST_FIRST(&vcq->dirty))) {
		uint32_t n = p->chain.n;
		struct mpib_wr *bad;
		int rc;

		LIST_REMOVE(p, ring_link);
		p->dirty = false;
		rc = mpib_wr_chain_post(&p->chain, p->qp, &bad);
		vcq->counts.doorbells++;
		vcq->counts.wrs += n;
		if (rc < 0)
			mpib_vqp_unpost(p, bad, rc);
	}
}

bool mpib_vqp_unsettled(const struct mpib_vqp *v)
{
	for (uint64_t id = v->tx_tail; id < v->unordered; id++) {
		const struct mpib_vwr *w = &v->tx[id & v->mask];
		bool meant = v->attr.mode == MPIB_VQP_SPLIT
				     ? w->wr.opcode == IBV_WR_RDMA_WRITE
				     : w->wr.opcode != IBV_WR_SEND;

		if (meant && (w->left > 0 || w->to_tell))
			return true;
	}
	return false;
}

static bool pass_on(struct mpib_vqp *v, uint64_t id)
{
	struct mpib_vwr *w = mpib_vqp_tx(v, id);
	struct mpib_phys *p = &v->data[0];

	if (p->dead) {
		mpib_vwr_fail(v, id, IBV_WC_WR_FLUSH_ERR, -ENETDOWN);
		return true;
	}
	if (v->multi && mpib_vqp_unsettled(v))
		return false;
	return mpib_vqp_room(p) &&
	       mpib_vqp_fragment(p, id, 0, (uint32_t)w->wr.length,
				 MPIB_VQP_PASS, w->wr.opcode, w->wr.imm);
}

static bool post_dispatch(struct mpib_vqp *v, uint64_t id)
{
	const struct mpib_vwr *w = mpib_vqp_tx(v, id);

	if (!v->multi || w->wr.opcode == IBV_WR_SEND)
		return pass_on(v, id);
	switch (v->attr.mode) {
	case MPIB_VQP_SPLIT:
		return mpib_vqp_split(v, id);
	case MPIB_VQP_SPRAY:
		return mpib_vqp_spray(v, id);
	case MPIB_VQP_DQPLB:
		break;
	}
	return mpib_vqp_dqplb(v, id);
}

/*
 * Post the notices of messages whose data is complete, in message order. Stop
 * at the first message with incomplete data: a notice says that the data of all
 * earlier messages is complete, too. After a message's first notice is
 * posted (`begun`), `left` counts the message's notices instead of its data.
 */
static void tell_waiting(struct mpib_vqp *v)
{
	for (uint64_t id = v->tx_tail; id != v->tx_next; id++) {
		const struct mpib_vwr *w = mpib_vqp_tx(v, id);

		if (!w->begun && w->left > 0)
			return;
		if (!w->to_tell)
			/* all notices are posted, or the message failed or
			 * needs no notice */
			continue;
		mpib_vqp_tell(v, id);
		if (w->to_tell)
			return;
	}
}

void mpib_vqp_advance(struct mpib_vqp *v)
{
	while (v->tx_next != v->tx_head) {
		struct mpib_vwr *w = mpib_vqp_tx(v, v->tx_next);

		if (!w->dispatched && !post_dispatch(v, v->tx_next))
			break;
		w->dispatched = true;
		v->tx_next++;
		mpib_vqp_make_ready(v);
	}
	if (v->attr.notifies && v->attr.mode == MPIB_VQP_SPRAY)
		tell_waiting(v);
}

void mpib_vqp_sent(struct mpib_phys *p, const struct ibv_wc *wc)
{
	struct mpib_vqp *v = p->vqp;
	struct mpib_wr *w = STAILQ_FIRST(&p->wrs);
	struct mpib_vwr *vw;

	/* A QP completes WRs in the order posted. So only a completion of the
	 * oldest WR can belong to this virtual QP. */
	if (!w || w->wr.wr_id != wc->wr_id) {
		v->vcq->counts.unknown++;
		return;
	}
	mpib_vqp_pop(p);
	if (wc->status != IBV_WC_SUCCESS) {
		mpib_vqp_lose(p, w, wc->status, 0);
		return;
	}
	mpib_vqp_note_answer(v, w);
	vw = mpib_vqp_tx(v, w->owner);
	vw->left--;
	mpib_wr_give(v->vcq->pool, w);
	if (vw->left == 0)
		mpib_vqp_make_ready(v);
}

/* The pool of send WRs, and chains of WRs posted by one ibv_post_send(). */

_Static_assert((MPIB_WR_POOL & (MPIB_WR_POOL - 1)) == 0, "a power of two");

int mpib_wr_pool_init(struct mpib_wr_pool *pool)
{
	*pool = (struct mpib_wr_pool){ 0 };
	pool->all = calloc(MPIB_WR_POOL, sizeof(*pool->all));
	if (!pool->all)
		return -ENOMEM;
	for (uint32_t i = MPIB_WR_POOL; i-- > 0;) {
		pool->all[i].wr.sg_list = pool->all[i].sge;
		mpib_wr_give(pool, &pool->all[i]);
	}
	return 0;
}

void mpib_wr_pool_fini(struct mpib_wr_pool *pool)
{
	free(pool->all);
	pool->all = NULL;
}
