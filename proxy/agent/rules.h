/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's configuration: its file, or the single rule of its command line.
 * A rule applies to some connections, always or for a limited time, and gives
 * SUP's share for them. mpib-agent(8) describes the syntax.
 */
#ifndef MPIB_AGENT_RULES_H
#define MPIB_AGENT_RULES_H

#include "agent/slots.h"
#include "base/address.h"

#define MPIB_AGENT_RULES 1024u
#define MPIB_AGENT_LIMITS 32u
#define MPIB_AGENT_WORDS 20u /* maximum words of a line */
#define MPIB_AGENT_PATH 128u /* bytes of a path, including the final 0 */

struct mpib_agent_rule {
	/* SUP's parts per 1024; MPIB_HINT_OWN: the proxy decides. */
	uint32_t share;
	unsigned line; /* in the file; 0: the rule of the command line */
	struct mpib_network net; /* addresses of peers; 0 bits: all */
	uint64_t from, to; /* seconds of the epoch; 0: no limit */
	bool drains; /* the rule is "drain RAIL" */
};

/* A limit on the growth of a counter. If the counter grows by more than per_s a
 * second, its rail counts as sick or congested. */
struct mpib_agent_limit {
	char counter[48];
	uint64_t per_s;
	uint8_t rails; /* one bit per rail that it applies to */
	bool congested; /* else: sick */
};

struct mpib_agent_conf {
	/* "": no file, the rule is on the command line. */
	char path[MPIB_AGENT_PATH];
	unsigned rules, limits;
	struct mpib_agent_rule rule[MPIB_AGENT_RULES];
	struct mpib_agent_limit limit[MPIB_AGENT_LIMITS];
	/* Minimum in Gb/s, below which a rail is sick; 0: none. */
	uint64_t speed[MPIB_RAILS];
	/* Seconds without an objection before a rail is used again. */
	uint64_t hold_s;
};

/* Write the error "what: why (remedy)" to the buffer `why` of MPIB_AGENT_WHY
 * bytes, and return false. */
bool mpib_agent_bad(char *why, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Set the defaults: no rule, no limit. */
void mpib_agent_conf_init(struct mpib_agent_conf *c);
/* Parse a rule of the command line: "static N", "adaptive" or "drain sout|sup".
 * On failure, return false and write the error to `why`. */
bool mpib_agent_rule_parse(struct mpib_agent_rule *rule, char **words,
			   int count, char *why);
/* Read the file at `path` into c. On failure, return false and write
 * "PATH:LINE: what: why (remedy)" to `why`. */
bool mpib_agent_conf_read(struct mpib_agent_conf *c, const char *path,
			  char *why);
/* Return whether the rule applies at the time now_s. */
bool mpib_agent_rule_holds(const struct mpib_agent_rule *rule, uint64_t now_s);
/* Return the first rule that matches the peer and applies at the time now_s. If
 * there is none, return the rule "adaptive". `peer` is in network order. */
const struct mpib_agent_rule *
mpib_agent_conf_rule(const struct mpib_agent_conf *c, uint32_t peer,
		     uint64_t now_s);

#endif
