/* SPDX-License-Identifier: Apache-2.0 */
/* Failures of physical WRs and QPs: keep the fragment for a replay, fail its
 * virtual WR, or end the virtual QP. This file also has the replay on the
 * remaining QPs. */
#include <endian.h>
#include <errno.h>

#include "vqp/internal.h"
#include "vqp/seq.h"

unsigned mpib_vqp_healthy(const struct mpib_vqp *vqp)
{
	return vqp->broken ? 0 : vqp->alive;
}

/* Record that these devices carried data of virtual WR `id`. The WR's own
 * notice or the next message's notice must cover that data. */
static void leave_untold(struct mpib_vqp *v, uint64_t id, uint8_t devices)
{
	for (; id < v->tx_next; id++) {
		struct mpib_vwr *w = mpib_vqp_tx(v, id);

		if (!w->to_tell)
			continue;
		w->used |= devices;
		w->to_tell |= devices;
		return;
	}
	v->untold |= devices;
}

void mpib_vwr_fail(struct mpib_vqp *v, uint64_t id, enum ibv_wc_status status,
		   int error)
{
	struct mpib_vwr *w = mpib_vqp_tx(v, id);
	uint8_t untold = w->to_tell;

	if (w->status != IBV_WC_SUCCESS)
		return; /* keep the first error */
	w->status = status;
	w->error = error;
	/* Post no more fragments or notices of w. Then w completes as soon as
	 * its WRs in flight complete. */
	w->dispatched = true;
	w->to_tell = 0;
	leave_untold(v, id, untold);
}

static void end_share(struct mpib_vqp *v, struct mpib_wr *w,
		      enum ibv_wc_status status, int error)
{
	mpib_vwr_fail(v, w->owner, status, error);
	mpib_vqp_tx(v, w->owner)->left--;
	mpib_wr_give(v->vcq->pool, w);
}

/* Fail the lost fragments, the receives, and the sends that are not posted
 * completely. They can no longer complete. */
static void fail_waiting(struct mpib_vqp *v, enum ibv_wc_status status,
			 int error)
{
	struct mpib_wr *w;

	while ((w = STAILQ_FIRST(&v->lost))) {
		STAILQ_REMOVE_HEAD(&v->lost, link);
		end_share(v, w, status, error);
	}
	for (uint64_t id = v->tx_tail; id != v->tx_head; id++) {
		const struct mpib_vwr *vw = mpib_vqp_tx(v, id);

		if (!vw->dispatched || vw->to_tell)
			mpib_vwr_fail(v, id, status, error);
	}
	mpib_vqp_fail_recvs(v, status, error);
	mpib_vqp_make_ready(v);
}

static bool device_left(const struct mpib_vqp *v, unsigned device)
{
	for (unsigned i = 0; i < v->attr.n; i++) {
		if (!v->data[i].dead && v->data[i].device == device)
			return true;
	}
	return false;
}

static bool notify_lost(const struct mpib_vqp *v)
{
	for (unsigned i = 0; i < v->attr.notifies; i++) {
		if (v->notifies[i].dead)
			return true;
	}
	return false;
}

/* Return whether the mode can continue without the dead QPs. p is the QP that
 * died last. */
static bool can_go_on(const struct mpib_vqp *v, const struct mpib_phys *p)
{
	if (!v->alive || v->broken || notify_lost(v))
		return false;
	return v->attr.mode != MPIB_VQP_SPLIT || device_left(v, p->device);
}

static void mark_dead(struct mpib_phys *p)
{
	if (p->dead)
		return;
	p->dead = true;
	p->vqp->alive -= p->index < p->vqp->attr.n;
}

void mpib_vqp_bury(struct mpib_phys *p)
{
	struct mpib_vqp *v = p->vqp;

	mark_dead(p);
	if (!can_go_on(v, p))
		mpib_vqp_end(v, IBV_WC_WR_FLUSH_ERR, -ENETDOWN);
}

void mpib_vqp_end(struct mpib_vqp *v, enum ibv_wc_status status, int error)
{
	v->broken = true;
	fail_waiting(v, status, error);
}

/* Return whether w carries a number. If a numbered WR is lost, the receiver
 * waits for its number for ever. */
static bool leaves_gap(const struct mpib_vqp *v, const struct mpib_wr *w)
{
	return v->multi && w->kind != MPIB_VQP_PASS &&
	       w->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

void mpib_vqp_lose(struct mpib_phys *p, struct mpib_wr *w,
		   enum ibv_wc_status status, int error)
{
	struct mpib_vqp *v = p->vqp;
	const struct mpib_vwr *vw = mpib_vqp_tx(v, w->owner);
	bool gap = leaves_gap(v, w);

	mark_dead(p);
	if (v->attr.replay && w->kind == MPIB_VQP_DATA && can_go_on(v, p) &&
	    vw->status == IBV_WC_SUCCESS) {
		STAILQ_INSERT_TAIL(&v->lost, w, link);
		return;
	}
	end_share(v, w, status, error);
	if (gap)
		v->broken = true;
	mpib_vqp_bury(p);
	mpib_vqp_make_ready(v);
}

void mpib_vqp_unpost(struct mpib_phys *p, const struct mpib_wr *bad, int error)
{
	struct mpib_wr_list rest = STAILQ_HEAD_INITIALIZER(rest);
	struct mpib_wr_list kept = STAILQ_HEAD_INITIALIZER(kept);
	struct mpib_wr *w;
	bool found = false;

	while ((w = STAILQ_FIRST(&p->wrs))) {
		STAILQ_REMOVE_HEAD(&p->wrs, link);
		found |= w == bad;
		if (found)
			STAILQ_INSERT_TAIL(&rest, w, link);
		else
			STAILQ_INSERT_TAIL(&kept, w, link);
	}
	STAILQ_CONCAT(&p->wrs, &kept);
	while ((w = STAILQ_FIRST(&rest))) {
		STAILQ_REMOVE_HEAD(&rest, link);
		p->inflight--;
		mpib_vqp_lose(p, w, IBV_WC_LOC_QP_OP_ERR, error);
	}
}

/* Set the keys of w to those of the device that carries w now. Nothing else of
 * w changes. */
static void replay_rekey(struct mpib_wr *w, const struct mpib_vwr *vw,
			 unsigned device)
{
	const struct mpib_vqp_head *head = &vw->wr.head;
	bool headed =
		head->length && w->wr.wr.rdma.remote_addr == vw->wr.remote;

	w->sge[headed].lkey = vw->wr.key[device].lkey;
	if (headed)
		w->sge[0].lkey = head->lkey[device];
	w->wr.wr.rdma.rkey = vw->wr.key[device].rkey;
}

/* Choose a QP for the replay of a WR. In SPLIT an IMM covers earlier data on
 * its device, so it must stay on that device. */
static struct mpib_phys *replay_pick(struct mpib_vqp *v,
				     const struct mpib_wr *w)
{
	unsigned part = be32toh(w->wr.imm_data) >> 28;

	if (v->attr.mode != MPIB_VQP_SPLIT ||
	    w->wr.opcode != IBV_WR_RDMA_WRITE_WITH_IMM)
		return mpib_vqp_pick(v);
	return mpib_vqp_pick_of(v, (unsigned)__builtin_ctz(part));
}

int mpib_vqp_replay(struct mpib_vqp *vqp)
{
	struct mpib_vcq *vcq = vqp->vcq;
	struct mpib_wr *w;

	/* Without a healthy QP the lost fragments have failed already. */
	if (!mpib_vqp_healthy(vqp))
		return -ENETDOWN;
	while ((w = STAILQ_FIRST(&vqp->lost))) {
		const struct mpib_vwr *vw = mpib_vqp_tx(vqp, w->owner);
		struct mpib_phys *p = replay_pick(vqp, w);

		if (!p)
			return -EAGAIN;
		STAILQ_REMOVE_HEAD(&vqp->lost, link);
		replay_rekey(w, vw, p->device);
		if (w->wr.opcode == IBV_WR_RDMA_WRITE)
			leave_untold(vqp, w->owner, (uint8_t)(1u << p->device));
		mpib_vqp_enqueue(p, w);
		vcq->counts.replayed++;
	}
	mpib_vqp_flush(vcq);
	return 0;
}

/* Sequence numbers of fragments: the receiver's window, the sender's span. */

int mpib_seq_arrived(struct mpib_seq *s, uint32_t seq, uint8_t part,
		     uint8_t all, bool last, uint32_t bytes)
{
	uint32_t ahead = (seq + MPIB_SEQ_MOD - s->next) % MPIB_SEQ_MOD;
	struct mpib_seq_entry *e;

	if (seq >= MPIB_SEQ_MOD || !part || part & ~all)
		return -EPROTO;
	if (ahead >= MPIB_SEQ_MOD - MPIB_SEQ_WINDOW) {
		s->late++;
		return 0;
	}
	e = &s->window[(s->at + ahead) % MPIB_SEQ_WINDOW];
	if (ahead >= MPIB_SEQ_WINDOW || (e->all && e->all != all))
		return -EPROTO;
	if (e->parts & part) {
		s->late++;
		return 0;
	}
	e->parts |= part;
	e->all = all;
	e->last = last;
	e->bytes += bytes;
	return 1;
}

bool mpib_seq_take(struct mpib_seq *s, bool *last, uint32_t *bytes)
{
	struct mpib_seq_entry *e = &s->window[s->at];

	if (!e->all || e->parts != e->all)
		return false;
	*last = e->last;
	*bytes = e->bytes;
	*e = (struct mpib_seq_entry){ 0 };
	s->next = mpib_seq_next(s->next);
	s->at = (s->at + 1) % MPIB_SEQ_WINDOW;
	return true;
}

/* Return the bit of `answered` at this index, and clear the bit for its next
 * use. */
static bool take_answer(struct mpib_seq_sent *s, uint32_t at)
{
	uint64_t *word = &s->answered[at / 64], bit = 1ull << at % 64;
	bool answered = *word & bit;

	*word &= ~bit;
	return answered;
}

void mpib_seq_answered(struct mpib_seq_sent *s, uint32_t seq)
{
	uint32_t i = s->at + (seq + MPIB_SEQ_MOD - s->oldest) % MPIB_SEQ_MOD;

	i %= MPIB_SEQ_SPAN;
	s->answered[i / 64] |= 1ull << i % 64;
	while (s->oldest != s->next && take_answer(s, s->at)) {
		s->oldest = mpib_seq_next(s->oldest);
		s->at = (s->at + 1) % MPIB_SEQ_SPAN;
	}
}
