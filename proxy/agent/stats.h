/* SPDX-License-Identifier: Apache-2.0 */
/* How the agent samples the proxies of its node for the rule "balance". */
#ifndef MPIB_AGENT_STATS_H
#define MPIB_AGENT_STATS_H

#include "agent/rule.h"

#define MPIB_AGENT_PROXIES 16

/* Send "why" to the proxy at run_dir (NULL: the default) and balance each of
 * its connections that holds a slot of this agent. Blocks at most as long as
 * mpib_dial waits for an answer. False, with why, if the proxy did not answer.
 */
bool mpib_agent_look(struct mpib_agent *a, const char *run_dir, char *why);

#endif
