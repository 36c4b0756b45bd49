/* SPDX-License-Identifier: Apache-2.0 */
/* The status that mpib-agent leaves in its directory, for who wants to see it. */
#ifndef MPIB_CTL_AGENT_FILE_H
#define MPIB_CTL_AGENT_FILE_H

#include <jansson.h>
#include <stddef.h>

#define MPIB_AGENT_STATUS "status"

/* Read the status of the agent that serves dir. On failure -errno, and why holds
 * "what: why (remedy)"; so it does (-ESTALE) for one that an agent has not
 * refreshed for 10 s. */
int mpib_agent_file_read(const char *dir, json_t **data, char *why, size_t len);

#endif
