/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules by which the agent chooses SUP's share of a connection, and whom
 * each is for. No I/O and no state but the rates that a hint slot keeps for its
 * two rails.
 */
#ifndef MPIB_AGENT_RULE_H
#define MPIB_AGENT_RULE_H

#include "agent/islands.h"
#include "agent/slots.h"
#include "base/network.h"

enum mpib_agent_rule_kind {
	MPIB_RULE_FIXED, /* static, weights and drain: one share for all */
	MPIB_RULE_BALANCE, /* both rails should end a transfer together */
	MPIB_RULE_ADAPTIVE, /* as the proxy measures; not in advanced mode */
};

enum mpib_agent_where {
	MPIB_WHERE_ANY,
	MPIB_WHERE_INSIDE, /* the peer is of this node's island */
	MPIB_WHERE_OUTSIDE,
	MPIB_WHERE_NAMED,
};

struct mpib_agent_rule {
	enum mpib_agent_rule_kind kind;
	uint32_t share; /* SUP's parts per 1024; balance: the first one */
	unsigned line; /* of the configuration; 0: the command line's */
	/* The connections that the rule is for: all that is given has to fit. */
	bool has_net, has_uid, has_class;
	struct mpib_network net; /* of the peer */
	uid_t uid;
	unsigned class;
	enum mpib_agent_where where;
	char island[MPIB_AGENT_ISLAND_MAX];
};

/*
 * Parse "static N", "weights SOUT:SUP", "balance", "adaptive" or "drain
 * sout|sup". False if words are none of these; why then holds "what: why
 * (remedy)".
 */
bool mpib_agent_rule_parse(struct mpib_agent_rule *rule, char **words,
			   int count, char *why);

/* The same, behind any number of "peer ADDRESS", "network NETWORK", "island
 * NAME|inside|outside", "uid N" and "class N". */
bool mpib_agent_rule_parse_for(struct mpib_agent_rule *rule, char **words,
			       int count, char *why);

/* The islands of a connection's ends; NULL: of none. */
struct mpib_agent_way {
	const char *here, *there;
};

/* Whether the rule is for this connection. One of a user or a class is for none
 * of which a proxy's statistics have not told these yet. */
bool mpib_agent_rule_fits(const struct mpib_agent_rule *rule,
			  const struct mpib_agent_slot *s,
			  const struct mpib_agent_way *way);

/* The rails' counters for one connection, from its proxy's statistics. */
struct mpib_agent_sample {
	uint64_t acked_bytes[MPIB_RAILS];
	uint64_t busy_ns[MPIB_RAILS];
	uint64_t rtt_ns[MPIB_RAILS];
};

/*
 * SUP's share under balance after one more sample: the ratio of the bytes per
 * busy time of both rails, each rate averaged with the previous one. Each rail
 * keeps at least 1/32, so that the agent notices when a slow rail recovers.
 */
uint32_t mpib_agent_balance(struct mpib_agent_slot *s,
			    const struct mpib_agent_sample *now);

#endif
