/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a transfer is split over the rails: policy says a share, the split turns
 * it into bytes. Integers only.
 */
#ifndef MPIB_ENGINE_POLICY_H
#define MPIB_ENGINE_POLICY_H

#include <mpib/abi.h>

struct mpib_flow;

#define MPIB_SUP_BW_ALL 1024u

/*
 * The only policy entry: SUP's share of a transfer of size bytes, in parts per
 * 1024, more meaning all. Shard thread, once per posted piece; wait-free.
 */
uint32_t mpib_get_sup_bw(const struct mpib_flow *flow, uint32_t size);

/*
 * SUP's bytes of a transfer. SUP is rounded down to 128, SOUT takes the tail;
 * a share of all is not rounded. So below 128 bytes one rail carries all.
 */
static inline uint32_t mpib_sup_bytes(uint32_t sup_bw, uint32_t size)
{
	if (sup_bw >= MPIB_SUP_BW_ALL)
		return size;
	return (uint32_t)(((uint64_t)size * sup_bw) >> 10) & ~(MPIB_ALIGN - 1);
}

/* Bytes of each rail for a piece of len bytes, by the policy of now. */
void mpib_split(const struct mpib_flow *flow, uint32_t len, uint32_t *rail);

#endif
