/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The four rules by which the agent chooses SUP's share of a connection. No
 * I/O and no state but the rates that a hint slot keeps for its two rails.
 */
#ifndef MPIB_AGENT_RULE_H
#define MPIB_AGENT_RULE_H

#include "agent/slots.h"

enum mpib_agent_rule_kind {
	MPIB_RULE_FIXED, /* static, weights and drain: one share for all */
	MPIB_RULE_BALANCE, /* both rails should end a transfer together */
};

struct mpib_agent_rule {
	enum mpib_agent_rule_kind kind;
	uint32_t share; /* SUP's parts per 1024; balance: the first one */
};

/*
 * Parse "static N", "weights SOUT:SUP", "balance" or "drain sout|sup". False
 * if words are none of these; why then holds "what: why (remedy)".
 */
bool mpib_agent_rule_parse(struct mpib_agent_rule *rule, char **words,
			   int count, char *why);

/* The rails' counters for one connection, from its proxy's statistics. */
struct mpib_agent_sample {
	uint64_t acked_bytes[MPIB_RAILS];
	uint64_t busy_ns[MPIB_RAILS];
};

/*
 * SUP's share under balance after one more sample: the ratio of the bytes per
 * busy time of both rails, each rate averaged with the previous one. Each rail
 * keeps at least 1/32, so that the agent notices when a slow rail recovers.
 */
uint32_t mpib_agent_balance(struct mpib_agent_slot *s,
			    const struct mpib_agent_sample *now);

#endif
