/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to split a message over the rails. conn/split.c chooses the share
 * that a connection uses. Integers only. */
#ifndef MPIB_ENGINE_SPLIT_MODE_H
#define MPIB_ENGINE_SPLIT_MODE_H

#include <mpib/abi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MPIB_SUP_BW_ALL 1024u

/* Values of the setting MPIB_MODE, which may also be given as numbers. */
enum mpib_mode {
	/* path isolation: SUP inside an island, SOUT otherwise */
	MPIB_MODE_VANILLA,
	MPIB_MODE_ADVANCED, /* an agent's hints */
	MPIB_MODE_ADAPTIVE, /* by measured completion rates, see adapt.h */
	MPIB_MODE_STATIC, /* sup_bw */
};

/* Return a mode's name, such as "vanilla". */
const char *mpib_mode_name(enum mpib_mode mode);

/* The source of a connection's current split. */
enum mpib_split_source {
	MPIB_SPLIT_STATIC,
	MPIB_SPLIT_HINT,
	MPIB_SPLIT_ISOLATION,
	MPIB_SPLIT_ADAPTIVE,
	MPIB_SPLIT_FAILOVER, /* only one rail is left */
	MPIB_SPLIT_DRAIN, /* the other rail is drained */
	MPIB_SPLIT_ONE_RAIL, /* the lane never had another rail */
};

/* Return a source's name, such as "adaptive". */
const char *mpib_split_source_name(enum mpib_split_source source);

struct mpib_split_why {
	uint32_t sup_bw; /* 0..MPIB_SUP_BW_ALL */
	enum mpib_split_source source;
	uint64_t age_ns; /* age of sup_bw and source */
	uint32_t hint_slot; /* from an agent; UINT32_MAX: none */
	/* Messages up to this size are not cut and go over one rail; 0: sup_bw
	 * applies to all messages. */
	uint32_t small;
};

/* Return how many of `size` bytes SUP carries, rounded down to a multiple of
 * 128. SOUT carries the rest, and so all of a message below 128 bytes.
 * Exception: if sup_bw is MPIB_SUP_BW_ALL, SUP carries all bytes of any
 * size. */
static inline uint32_t mpib_sup_bytes(uint32_t sup_bw, uint32_t size)
{
	if (sup_bw >= MPIB_SUP_BW_ALL)
		return size;
	return (uint32_t)(((uint64_t)size * sup_bw) >> 10) & ~(MPIB_ALIGN - 1);
}

/* Islands: sets of nodes that reach each other by SUP. The IPv4 address of a
 * node's SOUT rail determines the node's island, either by the first bits of
 * the address or by configured lists of networks. Addresses are in network
 * order. No state; any thread. */

#define MPIB_ISLAND_NETS 64

/* Whether the peer is in the same island, as one end of a lane sees it. The
 * numbers are part of the peer protocol. */
enum mpib_path {
	MPIB_PATH_UNKNOWN, /* no islands are configured */
	MPIB_PATH_INTRA,
	MPIB_PATH_INTER,
};

struct mpib_islands {
	/* number of address bits that determine the island; 0: islands are
	 * given by net[], or there are none */
	uint8_t prefix;
	unsigned n;
	struct mpib_island_net {
		uint32_t net, mask; /* host order */
		unsigned island;
	} net[MPIB_ISLAND_NETS];
};

/*
 * Parse the configuration of islands: a prefix of 1..32, or 0 and a text. In
 * the text commas separate islands, and plus signs join the networks of an
 * island: "10.1.0.0/16+10.3.0.0/16,10.2.0.0/16". With prefix 0 and an empty
 * text there are no islands. -EINVAL: `why` names the fault and the remedy, as
 * part of a sentence.
 */
int mpib_islands_parse(struct mpib_islands *is, unsigned prefix,
		       const char *text, char *why, size_t why_len);

static inline int mpib_islands_given(const struct mpib_islands *is)
{
	return is->prefix || is->n;
}

/* Return whether both addresses are in one island. If several networks contain
 * an address, the one with the longest prefix determines its island. An address
 * in no network is an island of its own. So is address 0, which means
 * unknown. */
enum mpib_path mpib_islands_path(const struct mpib_islands *is, uint32_t a,
				 uint32_t b);

/* Return the name for logs, such as "intra-island". */
const char *mpib_path_name(enum mpib_path path);

#endif
