/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is right for a connection: the share of its rule, unless something
 * speaks against a rail. A rail is left for good (its share is 0) in a window of
 * maintenance, while its port is sick, here or by the word of the peer's agent, and
 * while its path to this peer is slow;
 * where both are unwell, the one that is worse off, in this order. A
 * congested rail carries a quarter at most.
 *
 * The proxy goes on to use whatever rail is left when the other one fails: an
 * agent can leave a rail, but not take away the last.
 */
#ifndef MPIB_AGENT_DECIDE_H
#define MPIB_AGENT_DECIDE_H

#include "agent/health.h"
#include "agent/peers.h"

struct mpib_agent_policy {
	struct mpib_agent *agent;
	struct mpib_agent_conf conf;
	unsigned age; /* counts configurations; from 1 */
	struct mpib_agent_ports ports;
	struct mpib_agent_windows windows;
	struct mpib_agent_peers peers;
	struct mpib_agent_now now;
	bool dry; /* nothing is steered: each proxy goes on as without agent */
	char fault[MPIB_AGENT_WHY]; /* why the last reload failed, or "" */
};

/* Note how late the rails answer: of one that moved nothing since the last sample that
 * is not known, for the proxy goes on to tell what it measured once. */
void mpib_agent_time(struct mpib_agent_slot *s,
		     const struct mpib_agent_sample *now);
/* Decide for the connection that holds the slot, and write its hint. */
void mpib_agent_decide(struct mpib_agent_policy *p, unsigned slot);
/* For all, as far as p->now and the files that p names have changed. */
void mpib_agent_decide_all(struct mpib_agent_policy *p);
/* Read the configuration at path and go by it. False, with why: the one of
 * before holds. */
bool mpib_agent_reload(struct mpib_agent_policy *p, const char *path,
		       char *why);
/* tell.c: what is to be said of this node to agents of others. Of more windows than
 * there is room for the first. */
void mpib_agent_summary(const struct mpib_agent_policy *p,
			struct mpib_agent_summary *s);
/* Seconds and monotonic time of now. */
void mpib_agent_clock(struct mpib_agent_now *now);

#endif
