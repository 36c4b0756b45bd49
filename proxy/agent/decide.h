/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is right for a connection: the share of its rule, unless something speaks
 * against a rail. A rail is left (its share is 0) by a rule that drains it for a
 * time, while it is sick, here or by the word of the peer's agent, and while its
 * path to this peer is slow; where both are unwell, the one that is worse off, in
 * this order. A congested rail carries a quarter at most.
 *
 * The proxy goes on to use the other rail when one fails: an agent can leave a
 * rail, but not take away the last.
 */
#ifndef MPIB_AGENT_DECIDE_H
#define MPIB_AGENT_DECIDE_H

#include <jansson.h>

#include "agent/rules.h"

#define MPIB_AGENT_PROXIES 16u
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
		uint64_t said_s; /* seconds of the epoch */
	} * of; /* in the order of sout, each once */
};

/* A proxy of this node, as it answered last. */
struct mpib_agent_node {
	const char *run_dir; /* NULL: the default */
	json_t *rails; /* NULL: not asked yet */
	uint64_t at_ns;
	bool silent; /* warned: it does not answer */
};

struct mpib_agent_policy {
	struct mpib_agent *agent;
	struct mpib_agent_conf conf;
	unsigned age; /* counts sets of rules; from 1 */
	struct mpib_agent_node proxy[MPIB_AGENT_PROXIES];
	unsigned proxies;
	struct mpib_agent_objection sick[MPIB_RAILS], congested[MPIB_RAILS];
	bool missing[MPIB_AGENT_LIMITS]; /* warned: no rail has the counter */
	struct mpib_agent_peers peers;
	uint64_t peers_s; /* when proxies were asked about peers */
	/* Seconds of the epoch, and monotonic nanoseconds. */
	struct mpib_agent_now {
		uint64_t s, ns;
	} now;
	bool dry; /* nothing is steered: each proxy goes on as without agent */
	char fault[MPIB_AGENT_WHY]; /* why the last reload failed, or "" */
};

/* Ask all proxies how their connections do; second: how their rails do, and what
 * agents of other nodes say, as well. Blocks as long as mpib_dial waits. */
void mpib_agent_look(struct mpib_agent_policy *p, bool second);
/* What answers are taken in by: rows of "why", of the proxy with this pid; of
 * "rails", of a proxy; of "agents". */
void mpib_agent_take_conns(struct mpib_agent_policy *p, uint64_t pid,
			   const json_t *rows);
void mpib_agent_take_rails(struct mpib_agent_policy *p,
			   struct mpib_agent_node *node, json_t *rows);
void mpib_agent_take_peers(struct mpib_agent_policy *p, const json_t *rows);
/* After these: forget objections and words of peers that are too old. */
void mpib_agent_forget(struct mpib_agent_policy *p);

/* Note how late the rails answer. A rail that moved nothing since the last sample was
 * not measured: its proxy repeats what it measured before. */
void mpib_agent_time(struct mpib_agent_slot *s,
		     const struct mpib_agent_sample *now);
/* Decide for the connection that holds the slot, and write its hint. */
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
