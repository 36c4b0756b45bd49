/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's command line. */
#ifndef MPIB_AGENT_OPTIONS_H
#define MPIB_AGENT_OPTIONS_H

#include "agent/stats.h"

struct mpib_agent_options {
	const char *dir, *user, *sysfs;
	const char *config; /* NULL: rule counts */
	const char *run_dir[MPIB_AGENT_PROXIES];
	unsigned proxies;
	unsigned interval_ms;
	struct mpib_agent_rule rule;
	bool check, dry, json;
	bool status; /* tell what the agent of dir does */
};

/* Negative: the options are good. Else the exit status of the process, and why,
 * unless it is empty, says what is wrong. */
int mpib_agent_options_parse(int argc, char **argv,
			     struct mpib_agent_options *o, char *why);

#endif
