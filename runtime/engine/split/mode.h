/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to split a message over the rails. conn/split.c decides which share
 * a connection uses. Integers only. */
#ifndef MPIB_ENGINE_SPLIT_MODE_H
#define MPIB_ENGINE_SPLIT_MODE_H

#include <mpib/abi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MPIB_SUP_BW_ALL 1024u

/* MPIB_MODE; the environment variable takes these numbers. */
enum mpib_mode {
	/* path isolation: SUP inside an island, otherwise SOUT */
	MPIB_MODE_VANILLA,
	MPIB_MODE_ADVANCED, /* an agent's hints */
	MPIB_MODE_ADAPTIVE, /* by measured completion rates, adapt.h */
	MPIB_MODE_STATIC, /* sup_bw */
};

/* "vanilla". */
const char *mpib_mode_name(enum mpib_mode mode);

/* The source of a connection's current split. */
enum mpib_split_source {
	MPIB_SPLIT_STATIC,
	MPIB_SPLIT_HINT,
	MPIB_SPLIT_ISOLATION,
	MPIB_SPLIT_ADAPTIVE,
	MPIB_SPLIT_FAILOVER, /* only one rail is left */
	MPIB_SPLIT_DRAIN, /* an operator drained the other rail */
	MPIB_SPLIT_ONE_RAIL, /* the lane never had another */
};

/* "adaptive". */
const char *mpib_split_source_name(enum mpib_split_source source);

struct mpib_split_why {
	uint32_t sup_bw; /* 0..MPIB_SUP_BW_ALL */
	enum mpib_split_source source;
	uint64_t age_ns; /* since sup_bw and source last changed */
	uint32_t hint_slot; /* given by an agent; UINT32_MAX: none */
	/* Messages up to this size are not cut and go on one rail; 0: all use
	 * sup_bw. */
	uint32_t small;
};

/* Return SUP's bytes of size, rounded down to a multiple of 128; SOUT carries
 * the rest, so below 128 bytes SOUT carries all. But a share of MPIB_SUP_BW_ALL
 * gives SUP all bytes, whatever the size. */
static inline uint32_t mpib_sup_bytes(uint32_t sup_bw, uint32_t size)
{
	if (sup_bw >= MPIB_SUP_BW_ALL)
		return size;
	return (uint32_t)(((uint64_t)size * sup_bw) >> 10) & ~(MPIB_ALIGN - 1);
}

/* Islands: which nodes reach each other on SUP. The IPv4 address of a node's
 * SOUT rail determines its island: either by its first bits or by configured
 * lists of networks. Addresses are in network order. No state; any thread. */

#define MPIB_ISLAND_NETS 64

/* The peer's island as one end of a lane sees it. The numbers travel on the
 * peer link. */
enum mpib_path {
	MPIB_PATH_UNKNOWN, /* no islands are configured */
	MPIB_PATH_INTRA,
	MPIB_PATH_INTER,
};

struct mpib_islands {
	uint8_t prefix; /* bits; 0: islands are given by net[], if any */
	unsigned n;
	struct mpib_island_net {
		uint32_t net, mask; /* host order */
		unsigned island;
	} net[MPIB_ISLAND_NETS];
};

/*
 * prefix 1..32, or 0 and text: islands are separated by commas, the networks of
 * an island are joined by plus signs, "10.1.0.0/16+10.3.0.0/16,10.2.0.0/16".
 * prefix 0 and an empty text: no islands. -EINVAL: why is a sentence fragment
 * that names the fault and the remedy.
 */
int mpib_islands_parse(struct mpib_islands *is, unsigned prefix,
		       const char *text, char *why, size_t why_len);

static inline int mpib_islands_given(const struct mpib_islands *is)
{
	return is->prefix || is->n;
}

/* Return whether both addresses are in one island. The longest network that
 * contains an address decides. An address in no network is an island of its
 * own; so is address 0, which means unknown. */
enum mpib_path mpib_islands_path(const struct mpib_islands *is, uint32_t a,
				 uint32_t b);

/* Return the name for logs: "intra-island". */
const char *mpib_path_name(enum mpib_path path);

#endif
