/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agent is told: its configuration file, or the one rule of its
 * command line. mpib-agent(8) has the words.
 */
#ifndef MPIB_AGENT_CONF_H
#define MPIB_AGENT_CONF_H

#include "agent/rule.h"

#define MPIB_AGENT_RULES 256u
#define MPIB_AGENT_PORTS 32u
#define MPIB_AGENT_LIMITS 32u

#define MPIB_AGENT_PATH 128u /* of a file, with its end */

/* A port of this node whose counters are looked at. */
struct mpib_agent_port {
	unsigned rail, number;
	char device[64];
	uint64_t gbps; /* nominal; 0: not given */
};

/* More than so many a second of a counter say something of its rail. */
struct mpib_agent_limit {
	char counter[48];
	uint64_t per_s;
	bool congested; /* else: sick */
};

struct mpib_agent_conf {
	/* "": there is no file, but the command line's rule. */
	char path[MPIB_AGENT_PATH];
	unsigned rules, ports, limits;
	struct mpib_agent_rule rule[MPIB_AGENT_RULES];
	struct mpib_agent_port port[MPIB_AGENT_PORTS];
	struct mpib_agent_limit limit[MPIB_AGENT_LIMITS];
	/* A path that answers so many times later than the other rail's is left
	 * for hold_s. 0: none is. */
	uint64_t slow;
	uint64_t hold_s; /* a rail has to be well for so long */
	uint64_t lead_s; /* a rail is left so long before its window */
	char windows[MPIB_AGENT_PATH]; /* the list of maintenance, or "" */
	char islands_path[MPIB_AGENT_PATH];
	struct mpib_agent_islands islands;
};

/* Read the file at path, and its list of islands, into c. False: why says why,
 * and c is empty. */
bool mpib_agent_conf_read(struct mpib_agent_conf *c, const char *path,
			  char *why);
/* The rule that is for the connection: the first that fits. Where none does, it
 * is the proxy's own: adaptive. */
const struct mpib_agent_rule *
mpib_agent_conf_rule(const struct mpib_agent_conf *c,
		     const struct mpib_agent_slot *s);
/* Whether proxies' statistics are wanted. */
bool mpib_agent_conf_looks(const struct mpib_agent_conf *c);
void mpib_agent_conf_free(struct mpib_agent_conf *c);

#endif
