/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which island a node is of, by a list: as an operator has it, or as
 * mpib-lldp-islands of the examples writes it by what lldpd hears. A line is
 * "NETWORK ISLAND"; of several that fit the longest network counts.
 */
#ifndef MPIB_AGENT_ISLANDS_H
#define MPIB_AGENT_ISLANDS_H

#include "agent/words.h"
#include "base/network.h"

#define MPIB_AGENT_ISLAND_MAX 32u
#define MPIB_AGENT_ISLANDS_MAX 4096u

struct mpib_agent_islands {
	unsigned n;
	struct mpib_agent_island {
		struct mpib_network net;
		char name[MPIB_AGENT_ISLAND_MAX];
	} * of;
};

/* Into an empty list. False: why says why, and the list is empty. */
bool mpib_agent_islands_read(struct mpib_agent_islands *list, const char *path,
			     char *why);
void mpib_agent_islands_free(struct mpib_agent_islands *list);
/* NULL: the address, in network order, is of none. */
const char *mpib_agent_island_of(const struct mpib_agent_islands *list,
				 uint32_t ip);

#endif
