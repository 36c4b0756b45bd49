/* SPDX-License-Identifier: Apache-2.0 */
/* An agent in a directory of its own, and what it decides, for unit tests. */
#ifndef MPIB_TEST_STEERED_H
#define MPIB_TEST_STEERED_H

#include "agent/decide.h"

extern struct mpib_agent agent;
extern struct mpib_agent_policy policy;
extern char dir[64], why[MPIB_AGENT_WHY];

/* Set up and take down, of a test. */
int steered_begin(void **state);
int steered_end(void **state);
/* A connection in the slot, of a proxy in advanced mode. */
struct mpib_agent_slot *steered_conn(unsigned slot, const char *peer);
/* A proxy's end of the agent's socket. */
int steered_dial(void);

#endif
