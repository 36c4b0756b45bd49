/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What agents of other nodes say of their rails, as their proxies tell it over the
 * peer links. Nobody says on what was heard, so that no two leave a rail because the
 * other does.
 */
#ifndef MPIB_AGENT_PEERS_H
#define MPIB_AGENT_PEERS_H

#include <stdbool.h>
#include <stdint.h>

/* Seconds between two looks at what peers' agents say, and the age beyond which it
 * counts no more. */
#define MPIB_AGENT_PEERS_S 5u
#define MPIB_AGENT_PEERS_MAX_S 30u

struct mpib_agent_peers {
	unsigned n;
	struct mpib_agent_peer {
		uint32_t sout; /* its IPv4 address, network order */
		uint8_t sick, maintenance; /* a bit for each rail */
		uint64_t said_s; /* seconds of the epoch */
	} * of; /* in the order of sout, each once */
};

/* Ask the proxies at these run directories (NULL: the default). What was heard before,
 * and not anew, stays until it is too old: one that has just started knows of no
 * peer's agent, nor of its own. False, with why: one did not answer. */
bool mpib_agent_peers_look(struct mpib_agent_peers *p,
			   const char *const *run_dir, unsigned proxies,
			   uint64_t now_s, char *why);
/* What the agent of the peer says; NULL: nothing, or too long ago. */
const struct mpib_agent_peer *
mpib_agent_peer_of(const struct mpib_agent_peers *p, uint32_t sout,
		   uint64_t now_s);
void mpib_agent_peers_free(struct mpib_agent_peers *p);

#endif
