/* SPDX-License-Identifier: Apache-2.0 */
/* The status that mpib-agent leaves in its directory, for who wants to see it. */
#ifndef MPIB_CTL_AGENT_FILE_H
#define MPIB_CTL_AGENT_FILE_H

#include <jansson.h>
#include <stddef.h>

#define MPIB_AGENT_STATUS "status"

/* The user as whom the packages' unit runs the agent. */
#define MPIB_AGENT_USER "mpib-agent"

/*
 * Read the status of the agent that serves dir: a file of root, of our user or
 * of that of this name, and of at most 1 MiB. On failure -errno, and why holds
 * "what: why (remedy)"; so it does (-ESTALE) for one that an agent has not
 * refreshed for 10 s, or will have.
 */
int mpib_agent_file_read(const char *dir, const char *user, json_t **data,
			 char *why, size_t len);

#endif
