/* SPDX-License-Identifier: Apache-2.0 */
/* What the proxies of the node say of their connections. */
#ifndef MPIB_AGENT_STATS_H
#define MPIB_AGENT_STATS_H

#include "agent/rule.h"

#define MPIB_AGENT_PROXIES 16

/* Ask the proxy at run_dir (NULL: the usual one) why its connections are split
 * as they are, and balance those that hold one of our slots. Blocks for at most
 * the patience of mpibctl. False, with why. */
bool mpib_agent_look(struct mpib_agent *a, const char *run_dir, char *why);

#endif
