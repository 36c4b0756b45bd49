/* SPDX-License-Identifier: Apache-2.0 */
#include "spoil.h"

#include <endian.h>
#include <string.h>

/* Set a field to a value from `base` to `base` + `range` - 1. */
struct change {
	size_t at, bytes;
	uint64_t base;
	uint32_t range;
	bool added; /* add the value to the old value */
};

#define SET(field, base, range)                                                \
	{                                                                      \
		offsetof(struct mpib_desc, field),                             \
			sizeof(((struct mpib_desc *)0)->field), base, range,   \
			false                                                  \
	}
#define ALL (1u << 30)

static const struct change changes[SPOILS][2] = {
	[BAD_OP] = { SET(op, 3, MPIB_OP_MASK - 2) },
	[BAD_REQ] = { SET(req, MPIB_REQUESTS, 256 - MPIB_REQUESTS) },
	[BAD_GEN] = { SET(gen, 0, 1) },
	[BAD_N_NONE] = { SET(n, 0, 1) },
	[BAD_N] = { SET(n, MPIB_GROUP_MAX + 1, 255 - MPIB_GROUP_MAX) },
	[BAD_IDX] = { SET(idx, 1, 255) },
	[BAD_TOTAL] = { SET(total, 0x80000000u, ALL),
			SET(len, 0x80000000u, ALL) },
	[BAD_POS] = { SET(pos, SPOIL_LEN + 1, ALL) },
	[BAD_LEN] = { SET(len, SPOIL_LEN + 1, ALL) },
	[BAD_EMPTY] = { SET(len, 0, 1), SET(pos, 1, SPOIL_LEN - 1) },
	[BAD_MR] = { { offsetof(struct mpib_desc, mr), sizeof(uint32_t), 2,
		       1000, true } },
	[BAD_MR_FAR] = { SET(mr, UINT32_MAX - ALL + 1, ALL) },
	[BAD_OFF] = { SET(off, SPOIL_MEM + 1, ALL) },
	[BAD_END] = { SET(off, SPOIL_MEM - SPOIL_LEN + 1, SPOIL_LEN - 1) },
	[BAD_WRAP] = { SET(off, UINT64_MAX - 127, 128) },
	[BAD_PART] = { SET(pos, SPOIL_LEN, 1), SET(total, 2 * SPOIL_LEN, 1) },
	[BAD_MEMBER] = { SET(n, 2, 1), SET(idx, 1, 1) },
};

void spoil(struct mpib_desc *d, enum spoil how, uint32_t more)
{
	for (unsigned i = 0; i < 2 && changes[how][i].range; i++) {
		const struct change *c = &changes[how][i];
		uint64_t v = 0;

		if (c->added)
			memcpy(&v, (char *)d + c->at, c->bytes);
		v = le64toh(v) + c->base + more % c->range;
		v = htole64(v);
		memcpy((char *)d + c->at, &v, c->bytes);
	}
}
