/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a transfer may be split over the rails. Which share a connection has now
 * is conn/policy.c's to say. Integers only.
 */
#ifndef MPIB_ENGINE_POLICY_H
#define MPIB_ENGINE_POLICY_H

#include <mpib/abi.h>
#include <stdbool.h>

#define MPIB_SUP_BW_ALL 1024u

/* MPIB_MODE; the numbers are those of the environment. */
enum mpib_mode {
	MPIB_MODE_VANILLA, /* path isolation: SUP inside an island, else SOUT */
	MPIB_MODE_ADVANCED, /* an agent's hints */
	MPIB_MODE_ADAPTIVE, /* by measured completion rates, adapt.h */
	MPIB_MODE_STATIC, /* sup_bw */
};

/* "vanilla". */
const char *mpib_mode_name(enum mpib_mode mode);

/* Who says how a connection is split now. */
enum mpib_split_source {
	MPIB_SPLIT_STATIC,
	MPIB_SPLIT_HINT,
	MPIB_SPLIT_ISOLATION,
	MPIB_SPLIT_ADAPTIVE,
	MPIB_SPLIT_FAILOVER, /* only one rail is left */
};

/* "adaptive". */
const char *mpib_split_source_name(enum mpib_split_source source);

struct mpib_split_why {
	uint32_t sup_bw; /* 0..MPIB_SUP_BW_ALL */
	enum mpib_split_source source;
	uint64_t age_ns; /* since it became so */
	uint32_t hint_slot; /* of an agent; UINT32_MAX: none */
};

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

#endif
