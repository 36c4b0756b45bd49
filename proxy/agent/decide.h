/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decide SUP's share for the connections to a peer. They get the share of their
 * rule, unless there is an objection to a rail. A rail gets no traffic while a
 * rule drains it for a limited time (maintenance), or while it is sick. If both
 * rails have objections, the rail with the graver one gets no traffic;
 * maintenance is graver than sickness. A congested rail carries a quarter at
 * most. The summary for the proxies says which rails they have to drain, so
 * that the peers avoid these rails, too.
 *
 * If a rail fails, the proxy uses the other one, whatever its agent decided: an
 * agent can keep traffic off a rail, but not off the last one.
 */
#ifndef MPIB_AGENT_DECIDE_H
#define MPIB_AGENT_DECIDE_H

#include <jansson.h>

#include "agent/rules.h"

/* An objection to a rail. `since` is in seconds of the epoch; 0: no
 * objection. */
struct mpib_agent_objection {
	uint64_t since;
	uint64_t last_ns; /* last time it was observed, monotonic */
	char why[MPIB_AGENT_REASON];
};

struct mpib_agent_policy {
	struct mpib_agent *agent;
	struct mpib_agent_conf conf;
	/* Run directory of the proxy to query; NULL: the default one. */
	const char *run_dir;
	bool silent; /* the log says that the proxy does not answer */
	json_t *rails; /* the proxy's last answer; NULL: none yet */
	uint64_t rails_ns; /* time of that answer */
	struct mpib_agent_objection sick[MPIB_RAILS], congested[MPIB_RAILS];
	/* The log says that no rail has the counter. */
	bool missing[MPIB_AGENT_LIMITS];
	/* The current time: seconds of the epoch, and monotonic ns. */
	struct mpib_agent_now {
		uint64_t s, ns;
	} now;
	bool dry; /* steer nothing: hints are as without an agent */
	char fault[MPIB_AGENT_WHY]; /* why the last reload failed, or "" */
};

/* Ask the proxy for the state of its rails. Blocks for at most the time limits
 * of ctl/dial.h. */
void mpib_agent_look(struct mpib_agent_policy *p);
/* Process the rows of the answer "rails", then remove objections that are too
 * old. */
void mpib_agent_take_rails(struct mpib_agent_policy *p, json_t *rows);

/* Decide for the connections of the slot, and write its hint. */
void mpib_agent_decide(struct mpib_agent_policy *p, unsigned slot);
/* Decide for all slots. */
void mpib_agent_decide_all(struct mpib_agent_policy *p);
/* Read the configuration at `path` and apply it. On an error, return false,
 * write the reason to `why`, and keep the previous configuration. */
bool mpib_agent_reload(struct mpib_agent_policy *p, const char *path,
		       char *why);
/* Write the summary of this node for the proxies. */
void mpib_agent_summary(const struct mpib_agent_policy *p,
			struct mpib_agent_summary *s);
/* Read the clocks. */
void mpib_agent_clock(struct mpib_agent_now *now);

#endif
