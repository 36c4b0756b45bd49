/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The test plays an agent of a rig's first node. The agent has a directory
 * (that of scratch.h), a hint file and its end of the socket. Any failure is a
 * cmocka assertion.
 */
#ifndef MPIB_AGENT_RIG_H
#define MPIB_AGENT_RIG_H

#include <mpib/agent.h>

#include "rig.h"

int agent_rig_setup(void **state);
int agent_rig_teardown(void **state);

/* Make a hint file of this size. */
void agent_rig_make_hints(size_t bytes, uint32_t magic, mode_t mode);
/* Make a hint file with this many entries after the first 256. The file is
 * longer or shorter than the entries by `bytes`. */
void agent_rig_make_longer_hints(uint32_t more, int bytes);

/* Start to listen, or close all sockets and stop listening. */
void agent_rig_up(void);
void agent_rig_down(void);
/* Accept the proxy's connection. Return false if there is none. */
bool agent_rig_take_call(void);
/* Accept all connections of the proxy. Return whether the proxy kept the last
 * one open. */
bool agent_rig_is_heard(void);
/* Receive the proxy's next request. Return false if there is none. */
bool agent_rig_next(struct mpib_agent_request *r);
void agent_rig_answer(int32_t status, uint32_t slot);
void agent_rig_say(const struct mpib_agent_summary *s);
void agent_rig_send(const void *message, size_t bytes);
/* Return the connection's slot + 1, or 0 if it has none. */
uint32_t agent_rig_hint_of(const struct client *c, uint32_t index);

/* A client of each node. Only the first node connects to an agent. */
struct agent_rig_ends {
	struct client *a, *b;
};
struct agent_rig_ends agent_rig_nodes_up(struct rig *rig);
/* Start the same nodes with an agent. */
struct agent_rig_ends agent_rig_nodes_up_with_agent(struct rig *rig);

#endif
