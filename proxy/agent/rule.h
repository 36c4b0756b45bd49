/* SPDX-License-Identifier: Apache-2.0 */
/* What share the agent gives: four rules. Pure, but for what a slot remembers
 * of its rails. */
#ifndef MPIB_AGENT_RULE_H
#define MPIB_AGENT_RULE_H

#include "agent/slots.h"

enum mpib_agent_rule_kind {
	MPIB_RULE_FIXED, /* static, weights and drain: one share for all */
	MPIB_RULE_BALANCE, /* so that both rails end a transfer together */
};

struct mpib_agent_rule {
	enum mpib_agent_rule_kind kind;
	uint32_t share; /* SUP's parts per 1024; balance: to begin with */
};

/*
 * "static N", "weights SOUT:SUP", "balance" or "drain sout|sup". False, with
 * why as "what: why (remedy)".
 */
bool mpib_agent_rule_parse(struct mpib_agent_rule *rule, char **words,
			   int count, char *why);

/* What a rail did up to now, from a proxy's statistics. */
struct mpib_agent_sample {
	uint64_t acked_bytes[MPIB_RAILS];
	uint64_t busy_ns[MPIB_RAILS];
};

/*
 * The share under balance after a further look: in the ratio of what the rails
 * carried per busy time, half of the way. Both rails keep at least a
 * thirty-second part, or nothing would be learnt of one that recovers.
 */
uint32_t mpib_agent_balance(struct mpib_agent_slot *s,
			    const struct mpib_agent_sample *now);

#endif
