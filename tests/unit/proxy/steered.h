/* SPDX-License-Identifier: Apache-2.0 */
/* An agent in the directory of scratch.h, for unit tests of the agent's decisions. */
#ifndef MPIB_TEST_STEERED_H
#define MPIB_TEST_STEERED_H

#include "agent/decide.h"

extern struct mpib_agent agent;
extern struct mpib_agent_policy policy;
extern char why[MPIB_AGENT_WHY];

/* Setup and teardown of a test. */
int steered_begin(void **state);
int steered_end(void **state);
/* Fill the slot as a proxy in advanced mode does for a connection to `peer`. */
struct mpib_agent_slot *steered_conn(unsigned slot, const char *peer);
/* Connect to the agent's socket as a proxy does. Return the socket. */
int steered_dial(void);

#endif
