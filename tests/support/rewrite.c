/* SPDX-License-Identifier: Apache-2.0 */
#include "rewrite.h"

#include "draw.h"

void rewrite_slot(struct mpib_ring_slot *s, uint32_t mr, uint64_t bytes,
		  uint32_t len, uint64_t *rng)
{
	struct {
		void *at;
		unsigned bytes;
		uint64_t value;
	} field[] = {
		{ &s->desc.op, 1, draw(rng, 6) },
		{ &s->desc.op, 1, MPIB_OP_REPORT + draw(rng, 6) },
		{ &s->desc.req, 1, draw(rng, 40) },
		{ &s->desc.n, 1, draw(rng, 10) },
		{ &s->desc.idx, 1, draw(rng, 3) },
		{ &s->desc.gen, 4, draw(rng, 3) },
		{ &s->desc.mr, 4, mr + 1 + draw(rng, 1u << 30) },
		{ &s->desc.off, 8, bytes - len + draw(rng, 256) },
		{ &s->desc.off, 8, UINT64_MAX - draw(rng, 256) },
		{ &s->desc.len, 4, draw(rng, 1ULL << 32) },
		{ &s->desc.pos, 4, draw(rng, 1ULL << 32) },
		{ &s->desc.total, 4, draw(rng, 1ULL << 32) },
	};
	unsigned i = (unsigned)draw(rng, sizeof(field) / sizeof(*field));
	volatile uint8_t *p = field[i].at;
	uint8_t before[8];

	for (unsigned k = 0; k < field[i].bytes; k++) {
		before[k] = p[k];
		p[k] = (uint8_t)(field[i].value >> 8 * k);
	}
	for (unsigned k = 0; k < field[i].bytes; k++)
		p[k] = before[k];
}
