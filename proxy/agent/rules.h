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
#define MPIB_AGENT_ISLAND_MAX 32u
#define MPIB_AGENT_ISLANDS_MAX 4096u

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
	uint64_t from, to; /* seconds of the epoch; 0: no limit */
	bool drains; /* it is "drain RAIL" */
	bool idle; /* its time has not come, or is over */
};

/* More than per_s of a counter each second says something of its rail. */
struct mpib_agent_limit {
	char counter[48];
	uint64_t per_s;
	uint8_t rails; /* a bit for each that it is for */
	bool congested; /* else: sick */
};

/* Which island a node is of; of several networks that fit the longest counts. */
struct mpib_agent_islands {
	unsigned n;
	struct mpib_agent_island {
		struct mpib_network net;
		char name[MPIB_AGENT_ISLAND_MAX];
	} * of;
};

struct mpib_agent_conf {
	/* "": there is no file, but the command line's rule. */
	char path[MPIB_AGENT_PATH];
	unsigned rules, limits;
	struct mpib_agent_rule rule[MPIB_AGENT_RULES];
	struct mpib_agent_limit limit[MPIB_AGENT_LIMITS];
	uint64_t speed[MPIB_RAILS]; /* Gb/s; a slower rail is sick; 0: any */
	/* A path that answers this number of times later than the other rail's is
	 * left for hold_s. 0: none is. */
	uint64_t slow;
	uint64_t hold_s; /* a rail has to be well for this long */
	uint64_t lead_s; /* a drain with a time begins this long before it */
	char islands_path[MPIB_AGENT_PATH];
	struct mpib_agent_islands islands;
};

/* Write "what: why (remedy)" into why, of MPIB_AGENT_WHY bytes. False. */
bool mpib_agent_bad(char *why, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Parse a rule of the command line: "static N", "weights SOUT:SUP", "balance",
 * "adaptive" or "drain sout|sup". On failure false, and why. */
bool mpib_agent_rule_parse(struct mpib_agent_rule *rule, char **words,
			   int count, char *why);
/* Read the file at path, and its list of islands, into c. On failure false, why
 * holds "PATH:LINE: what: why (remedy)", and c is empty. */
bool mpib_agent_conf_read(struct mpib_agent_conf *c, const char *path,
			  char *why);
void mpib_agent_conf_free(struct mpib_agent_conf *c);
/* Note which rules have their time at now_s. Returns whether others have it than
 * before. */
bool mpib_agent_conf_turn(struct mpib_agent_conf *c, uint64_t now_s);
/* Return the first rule that fits the connection and has its time; where none
 * does, that of the proxy: adaptive. A rule of a user or a class fits no
 * connection whose user is not known yet. */
const struct mpib_agent_rule *
mpib_agent_conf_rule(const struct mpib_agent_conf *c,
		     const struct mpib_agent_slot *s);
/* Return the island of an address in network order, or NULL. */
const char *mpib_agent_island_of(const struct mpib_agent_islands *list,
				 uint32_t ip);

/* The rails' counters for one connection, from its proxy's statistics. */
struct mpib_agent_sample {
	uint64_t acked_bytes[MPIB_RAILS];
	uint64_t busy_ns[MPIB_RAILS];
	uint64_t rtt_ns[MPIB_RAILS];
};

/*
 * Return SUP's share under balance after one more sample: the ratio of the bytes
 * per busy time of both rails, each rate averaged with the previous one. Each rail
 * keeps at least 1/32, so that the agent notices when a slow rail recovers.
 */
uint32_t mpib_agent_balance(struct mpib_agent_slot *s,
			    const struct mpib_agent_sample *now);

#endif
