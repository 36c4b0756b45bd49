/* SPDX-License-Identifier: Apache-2.0 */
/* How the agent looks at the proxies of its node. */
#ifndef MPIB_AGENT_STATS_H
#define MPIB_AGENT_STATS_H

#include "agent/decide.h"

#define MPIB_AGENT_PROXIES 16

/* Send "why" to the proxy at run_dir (NULL: the default) and note in the slots
 * of its connections whose they are, what they moved and how late they answer.
 * Blocks at most as long as mpib_dial waits for an answer. False, with why, if
 * the proxy did not answer. */
bool mpib_agent_look(struct mpib_agent_policy *p, const char *run_dir,
		     char *why);

#endif
