/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SPLIT: each device carries one part of the message, on one of its QPs, with
 * an IMM that says which parts there are. Cuts are multiples of 128 bytes; the
 * last device with a weight takes the rest.
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

bool mpib_vqp_split(struct mpib_vqp *v, uint64_t id)
{
	struct mpib_vwr *w = mpib_vqp_tx(v, id);
	uint64_t part[MPIB_VQP_DEVICES], off = 0;
	unsigned used = split_cut(v, w->wr.length, part);
	bool imm = w->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	struct mpib_phys *p[MPIB_VQP_DEVICES] = { 0 };

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
