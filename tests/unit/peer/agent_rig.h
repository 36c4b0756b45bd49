/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions with which a test acts as the agent of a rig's first node. The
 * agent has a directory (that of scratch.h), a hint file and its end of the
 * socket. If a function fails, the test fails.
 */
#ifndef MPIB_AGENT_RIG_H
#define MPIB_AGENT_RIG_H

#include <mpib/agent.h>

#include "rig.h"

int agent_rig_setup(void **state);
int agent_rig_teardown(void **state);

/* Make a hint file of `bytes` bytes. */
void agent_rig_make_hints(size_t bytes, uint32_t magic, mode_t mode);
/* Make a hint file with `more` entries after the first 256, and make it longer
 * (or shorter, if negative) by `bytes`. */
void agent_rig_make_longer_hints(uint32_t more, int bytes);

/* agent_rig_up() starts listening. agent_rig_down() stops listening and closes
 * all sockets. */
void agent_rig_up(void);
void agent_rig_down(void);
/* Accept the proxy's connection. Return false if there is none. */
bool agent_rig_take_call(void);
/* Accept all connections of the proxy. Return whether the last connection is
 * still open. */
bool agent_rig_is_heard(void);
/* Receive the proxy's next request. Return false if there is none. */
bool agent_rig_next(struct mpib_agent_request *r);
void agent_rig_answer(int32_t status, uint32_t slot);
void agent_rig_say(const struct mpib_agent_summary *s);
void agent_rig_send(const void *message, size_t bytes);
/* Return the connection's hint slot plus 1, or 0 if the connection has no
 * slot. */
uint32_t agent_rig_hint_of(const struct client *c, uint32_t index);

/* Start two nodes with a client each. Only the first node connects to an
 * agent. */
struct agent_rig_ends {
	struct client *a, *b;
};
struct agent_rig_ends agent_rig_nodes_up(struct rig *rig);
/* Start an agent, then the nodes as above. */
struct agent_rig_ends agent_rig_nodes_up_with_agent(struct rig *rig);

#endif
