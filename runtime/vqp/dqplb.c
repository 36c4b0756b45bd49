/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DQPLB: fragments go over all QPs, each with an IMM that carries the number of
 * the fragment and marks the last one of a message. The receiver puts the
 * numbers in order, so a fragment waits for answers only when its number would
 * be outside the span from the oldest unanswered one. With ports, each message
 * is followed by one IMM of the caller's, in message order.
 */
#include "vqp/internal.h"

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
