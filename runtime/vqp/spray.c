/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SPRAY: fragments go over all QPs as WRITEs. Neither QPs nor devices keep an
 * order among each other, so the receiver gets its notice only when all
 * fragments are answered, and gets one on each device that carried any. Only
 * the notices are numbered, in message order when they are posted, so that a
 * message that failed leaves no gap.
 */
#include "vqp/internal.h"

bool mpib_vqp_spray(struct mpib_vqp *v, uint64_t id)
{
	struct mpib_vwr *w = mpib_vqp_tx(v, id);
	bool imm = w->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

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
	}
	if (imm && !w->wr.more && w->status == IBV_WC_SUCCESS) {
		/* An empty message is notified on the first notify QP. */
		if (!w->used)
			w->used = (uint8_t)(1u << v->notifies[0].device);
		w->to_tell = w->used;
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
