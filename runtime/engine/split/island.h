/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Islands: which nodes reach each other on SUP. The IPv4 address of a node's
 * SOUT rail says which island the node is in: either by the first bits of the
 * address or by configured lists of networks. Addresses are in network order.
 * No state; any thread.
 */
#ifndef MPIB_ENGINE_ISLAND_H
#define MPIB_ENGINE_ISLAND_H

#include <stddef.h>
#include <stdint.h>

#define MPIB_ISLAND_NETS 64

/* Where one end of a lane sees the peer. The numbers travel on the peer
 * link. */
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
 * prefix 1..32, or 0 and text: islands separated by commas, the networks of an
 * island joined by plus signs, "10.1.0.0/16+10.3.0.0/16,10.2.0.0/16". prefix 0
 * and an empty text: no islands. -EINVAL with why, a sentence fragment that
 * names the fault and the remedy.
 */
int mpib_islands_parse(struct mpib_islands *is, unsigned prefix,
		       const char *text, char *why, size_t why_len);

static inline int mpib_islands_given(const struct mpib_islands *is)
{
	return is->prefix || is->n;
}

/* The longest network that contains an address decides; an address in no
 * network is an island of its own. So is address 0, which means unknown. */
enum mpib_path mpib_islands_path(const struct mpib_islands *is, uint32_t a,
				 uint32_t b);

/* For logs: "intra-island". */
const char *mpib_path_name(enum mpib_path path);

#endif
