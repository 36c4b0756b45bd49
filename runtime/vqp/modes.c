/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each mode posts for a virtual WR.
 *
 * SPLIT: each device carries one part of the message, on one of its QPs, with
 * an IMM that says which parts there are. Cuts are multiples of 128 bytes; the
 * last device with a weight takes the rest. A WRITE has no number, and QPs keep
 * no order among each other, so the next message waits until it is answered, and
 * has an IMM, at least, on its devices.
 *
 * SPRAY: fragments go over all QPs as WRITEs. Neither QPs nor devices keep an
 * order among each other, so the receiver gets its notice only when all
 * fragments are answered, and gets one on each device that carried any, of
 * WRITEs before it, too. Only the notices are numbered, in message order when
 * they are posted, so that a message that failed leaves no gap. A SEND, on QP 0,
 * waits until all before it is over.
 *
 * DQPLB: fragments go over all QPs, each with an IMM that carries the number of
 * the fragment and marks the last one of a message. The receiver puts the
 * numbers in order, so a fragment waits for answers only when its number would
 * be outside the span from the oldest unanswered one. With ports, each message
 * is followed by one IMM of the caller's, in message order.
 */
#include "vqp/internal.h"

#define ALIGN 128u
#define ALL 1024u

/* Fill part with each device's bytes; return the mask of devices that carry
 * any, which for an empty message is the last device with a weight. */
static unsigned split_cut(const struct mpib_vqp *v, uint64_t length,
			  uint64_t *part)
{
	unsigned used = 0, last = 0;
	uint64_t given = 0;

	for (unsigned d = 0; d < MPIB_VQP_DEVICES; d++) {
		part[d] = 0;
		if (!(v->devices & 1u << d) || !v->attr.weight[d])
			continue;
		last = d;
		part[d] = length / ALL * v->attr.weight[d] +
			  length % ALL * v->attr.weight[d] / ALL;
		part[d] &= ~(uint64_t)(ALIGN - 1);
		given += part[d];
	}
	part[last] += length - given;
	for (unsigned d = 0; d < MPIB_VQP_DEVICES; d++)
		used |= (unsigned)(part[d] > 0) << d;
	return used ? used : 1u << last;
}

uint64_t mpib_vqp_largest(const struct mpib_vqp *v, uint64_t length)
{
	uint64_t part[MPIB_VQP_DEVICES], most = 0;

	split_cut(v, length, part);
	for (unsigned d = 0; d < MPIB_VQP_DEVICES; d++)
		most = part[d] > most ? part[d] : most;
	return most;
}

bool mpib_vqp_split(struct mpib_vqp *v, uint64_t id)
{
	struct mpib_vwr *w = mpib_vqp_tx(v, id);
	uint64_t part[MPIB_VQP_DEVICES], off = 0;
	unsigned used = split_cut(v, w->wr.length, part);
	bool imm = w->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	struct mpib_phys *p[MPIB_VQP_DEVICES] = { 0 };

	if (imm && mpib_vqp_unsettled(v))
		return false;
	used |= imm ? v->untold : 0;
	/* All parts or none: the offsets of parts posted later are not kept. */
	if (v->vcq->pool->left < MPIB_VQP_DEVICES)
		return false;
	for (unsigned d = 0; d < MPIB_VQP_DEVICES; d++) {
		if (!(used & 1u << d))
			continue;
		p[d] = mpib_vqp_pick_of(v, d);
		if (!p[d])
			return false;
	}
	if (imm) {
		w->seq = v->seq;
		v->seq = mpib_seq_next(v->seq);
		v->untold = 0;
	} else {
		v->unordered = id + 1;
		v->untold |= (uint8_t)used;
	}
	for (unsigned d = 0; d < MPIB_VQP_DEVICES; d++) {
		if (!(used & 1u << d))
			continue;
		mpib_vqp_fragment(p[d], id, off, (uint32_t)part[d],
				  MPIB_VQP_DATA, w->wr.opcode,
				  imm ? mpib_vqp_part_imm(w->seq, used, 1u << d)
				      : 0);
		off += part[d];
	}
	return true;
}

bool mpib_vqp_spray(struct mpib_vqp *v, uint64_t id)
{
	struct mpib_vwr *w = mpib_vqp_tx(v, id);
	bool imm = w->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

	v->unordered = id + 1;
	while ((w->offset < w->wr.length || (w->wr.head.length && !w->used)) &&
	       w->status == IBV_WC_SUCCESS) {
		uint64_t rest = w->wr.length - w->offset;
		uint32_t len =
			rest < v->attr.frag ? (uint32_t)rest : v->attr.frag;
		struct mpib_phys *p = mpib_vqp_pick(v);

		if (!p ||
		    !mpib_vqp_fragment(p, id, w->offset, len, MPIB_VQP_DATA,
				       IBV_WR_RDMA_WRITE, 0))
			return false;
		w->offset += len;
		w->used |= (uint8_t)(1u << p->device);
		v->untold |= w->used;
	}
	if (imm && !w->wr.more && w->status == IBV_WC_SUCCESS) {
		/* If nothing was carried, on the first notify QP. */
		if (!v->untold)
			v->untold = (uint8_t)(1u << v->notifies[0].device);
		w->used = w->to_tell = v->untold;
		v->untold = 0;
	}
	return true;
}

void mpib_vqp_tell(struct mpib_vqp *v, uint64_t id)
{
	struct mpib_vwr *w = mpib_vqp_tx(v, id);

	if (v->attr.ports) {
		w->begun |= mpib_vqp_tell_own(v, id);
		return;
	}
	if (!w->begun) {
		w->begun = true;
		w->seq = v->seq;
		v->seq = mpib_seq_next(v->seq);
	}
	for (unsigned d = 0; d < MPIB_VQP_DEVICES; d++) {
		struct mpib_phys *p = v->notify[d];

		if (!(w->to_tell & 1u << d))
			continue;
		if (!mpib_vqp_room(p) ||
		    !mpib_vqp_fragment(
			    p, id, 0, 0, MPIB_VQP_TELL,
			    IBV_WR_RDMA_WRITE_WITH_IMM,
			    mpib_vqp_part_imm(w->seq, w->used, 1u << d)))
			return;
		w->to_tell &= (uint8_t) ~(1u << d);
	}
}

bool mpib_vqp_dqplb(struct mpib_vqp *v, uint64_t id)
{
	struct mpib_vwr *w = mpib_vqp_tx(v, id);

	while (!w->begun || w->offset < w->wr.length) {
		uint64_t rest = w->wr.length - w->offset;
		uint32_t len =
			rest < v->attr.frag ? (uint32_t)rest : v->attr.frag;
		bool last = rest == len && !w->wr.more;
		uint32_t imm = v->out.next | (last ? MPIB_VQP_NOTIFY : 0);
		struct mpib_phys *p;

		if (w->status != IBV_WC_SUCCESS)
			return true;
		p = mpib_seq_may_send(&v->out) ? mpib_vqp_pick(v) : NULL;
		if (!p ||
		    !mpib_vqp_fragment(p, id, w->offset, len, MPIB_VQP_DATA,
				       IBV_WR_RDMA_WRITE_WITH_IMM, imm))
			return false;
		v->out.next = mpib_seq_next(v->out.next);
		w->offset += len;
		w->begun = true;
		w->to_tell = last && v->attr.ports;
	}
	return !w->to_tell || mpib_vqp_tell_own(v, id);
}
