/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agent is told: its configuration file, or the one rule of its command
 * line. A rule gives SUP's share of the connections that it is for, always or for
 * a time. mpib-agent(8) has the words.
 */
#ifndef MPIB_AGENT_RULES_H
#define MPIB_AGENT_RULES_H

#include "agent/slots.h"
#include "base/address.h"

#define MPIB_AGENT_RULES 1024u
#define MPIB_AGENT_LIMITS 32u
#define MPIB_AGENT_WORDS 20u /* in a line */
#define MPIB_AGENT_PATH 128u /* of a file, with its end */

struct mpib_agent_rule {
	/* SUP's parts per 1024; MPIB_HINT_OWN: as the proxy measures. */
	uint32_t share;
	unsigned line; /* of the configuration; 0: the command line's */
	struct mpib_network net; /* of the peer; of 0 bits: any */
	uint64_t from, to; /* seconds of the epoch; 0: no limit */
	bool drains; /* it is "drain RAIL" */
};

/* More than per_s of a counter each second says something of its rail. */
struct mpib_agent_limit {
	char counter[48];
	uint64_t per_s;
	uint8_t rails; /* a bit for each that it is for */
	bool congested; /* else: sick */
};

struct mpib_agent_conf {
	/* "": there is no file, but the command line's rule. */
	char path[MPIB_AGENT_PATH];
	unsigned rules, limits;
	struct mpib_agent_rule rule[MPIB_AGENT_RULES];
	struct mpib_agent_limit limit[MPIB_AGENT_LIMITS];
	uint64_t speed[MPIB_RAILS]; /* Gb/s; a slower rail is sick; 0: any */
	uint64_t hold_s; /* a rail has to be well for this long */
	char island[MPIB_AGENT_TOLD_ISLAND]; /* of this node, "": of none */
};

/* Write "what: why (remedy)" into why, of MPIB_AGENT_WHY bytes. False. */
bool mpib_agent_bad(char *why, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Set the defaults: no rule, no limit. */
void mpib_agent_conf_init(struct mpib_agent_conf *c);
/* Parse a rule of the command line: "static N", "adaptive" or "drain sout|sup".
 * On failure false, and why. */
bool mpib_agent_rule_parse(struct mpib_agent_rule *rule, char **words,
			   int count, char *why);
/* Read the file at path into c. On failure false, and why holds
 * "PATH:LINE: what: why (remedy)". */
bool mpib_agent_conf_read(struct mpib_agent_conf *c, const char *path,
			  char *why);
/* Return whether the rule has its time. */
bool mpib_agent_rule_holds(const struct mpib_agent_rule *rule, uint64_t now_s);
/* Return the first rule that fits the peer and has its time; where none
 * does, that of the proxy: adaptive. peer is in network order. */
const struct mpib_agent_rule *
mpib_agent_conf_rule(const struct mpib_agent_conf *c, uint32_t peer,
		     uint64_t now_s);

#endif
