/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is right for connections to a peer: the share of their rule, unless
 * something speaks against a rail. A rail is left (its share is 0) by a rule that
 * drains it for a time, and while it is sick, here or by the word of the peer's
 * agent; where both are unwell, the one that is worse off, in this order. A
 * congested rail carries a quarter at most.
 *
 * The proxy goes on to use the other rail when one fails: an agent can leave a
 * rail, but not take away the last.
 */
#ifndef MPIB_AGENT_DECIDE_H
#define MPIB_AGENT_DECIDE_H

#include <jansson.h>

#include "agent/rules.h"

/* Seconds between two questions what agents of other nodes say, and the age beyond
 * which it counts no more. */
#define MPIB_AGENT_PEERS_S 5u
#define MPIB_AGENT_PEERS_MAX_S 30u

/* What speaks against a rail. since: seconds of the epoch; 0: nothing does. */
struct mpib_agent_objection {
	uint64_t since;
	uint64_t last_ns; /* when it was last seen, monotonic */
	char why[MPIB_AGENT_REASON];
};

/* What agents of other nodes say of their rails, as their proxies tell it over the
 * peer links. No agent passes on what it heard, so that no two leave a rail because
 * the other does. */
struct mpib_agent_peers {
	unsigned n;
	struct mpib_agent_peer {
		uint32_t sout; /* its IPv4 address, network order */
		uint8_t sick, maintenance; /* a bit for each rail */
	} * of; /* in the order of sout, each once */
};

struct mpib_agent_policy {
	struct mpib_agent *agent;
	struct mpib_agent_conf conf;
	/* The proxy that is asked: NULL, that of the default run directory. */
	const char *run_dir;
	bool silent; /* warned: it does not answer */
	json_t *rails; /* its last answer; NULL: not asked yet */
	uint64_t rails_ns; /* when that came */
	struct mpib_agent_objection sick[MPIB_RAILS], congested[MPIB_RAILS];
	bool missing[MPIB_AGENT_LIMITS]; /* warned: no rail has the counter */
	struct mpib_agent_peers peers;
	uint64_t peers_s; /* when the proxy was asked about peers */
	/* Seconds of the epoch, and monotonic nanoseconds. */
	struct mpib_agent_now {
		uint64_t s, ns;
	} now;
	bool dry; /* nothing is steered: each proxy goes on as without agent */
	char fault[MPIB_AGENT_WHY]; /* why the last reload failed, or "" */
};

/* Ask the proxy how its rails do, and what agents of other nodes say. Blocks as
 * long as mpib_dial waits. */
void mpib_agent_look(struct mpib_agent_policy *p);
/* What answers are taken in by: rows of "rails", after which objections that are
 * too old are forgotten; of "agents". */
void mpib_agent_take_rails(struct mpib_agent_policy *p, json_t *rows);
void mpib_agent_take_peers(struct mpib_agent_policy *p, const json_t *rows);

/* Decide for the connections that hold the slot, and write its hint. */
void mpib_agent_decide(struct mpib_agent_policy *p, unsigned slot);
/* Decide for all. */
void mpib_agent_decide_all(struct mpib_agent_policy *p);
/* Read the configuration at path and go by it. False, with why: the one of
 * before holds. */
bool mpib_agent_reload(struct mpib_agent_policy *p, const char *path,
		       char *why);
/* Write what proxies are to be told of this node. */
void mpib_agent_summary(const struct mpib_agent_policy *p,
			struct mpib_agent_summary *s);
/* Read the clocks. */
void mpib_agent_clock(struct mpib_agent_now *now);

#endif
