/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's status: a file of JSON in its directory, which mpib-agent status
 * and mpibctl agent read (ctl/agent_file.h). mpib-agent(8) has its fields.
 */
#ifndef MPIB_AGENT_STATUS_H
#define MPIB_AGENT_STATUS_H

#include "agent/decide.h"
#include "ctl/agent_file.h"

/* Connections that a status has a row for. */
#define MPIB_AGENT_STATUS_ROWS 256u

/* Put the status where it is read, at once and whole. 0 or -errno. */
int mpib_agent_status_write(const struct mpib_agent_policy *p);
/* Take it away. */
void mpib_agent_status_remove(const struct mpib_agent *a);

#endif
