/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent that the test plays for the first node of a rig: its directory (that
 * of scratch.h), its hint file and its end of the socket. Errors are cmocka
 * assertions.
 */
#ifndef MPIB_AGENT_RIG_H
#define MPIB_AGENT_RIG_H

#include <mpib/agent.h>

#include "rig.h"

int agent_rig_setup(void **state);
int agent_rig_teardown(void **state);

/* Make a hint file of so many bytes. */
void agent_rig_make_hints(size_t bytes, uint32_t magic, mode_t mode);
/* One with so many entries behind the first 256, and bytes more or fewer than
 * they take. */
void agent_rig_make_longer_hints(uint32_t more, int bytes);

/* Listen, or hang up and listen no more. */
void agent_rig_up(void);
void agent_rig_down(void);
/* Take the proxy's call. False: it did not call. */
bool agent_rig_take_call(void);
/* Take all its calls. Whether the last one was not hung up. */
bool agent_rig_is_heard(void);
/* Take the proxy's next request. False: there is none. */
bool agent_rig_next(struct mpib_agent_request *r);
void agent_rig_answer(int32_t status, uint32_t slot);
void agent_rig_say(const struct mpib_agent_summary *s);
void agent_rig_send(const void *message, size_t bytes);
/* The slot that the connection was told, and 1; 0: none. */
uint32_t agent_rig_hint_of(const struct client *c, uint32_t index);

/* A client on either node. Only the first node looks for an agent. */
struct agent_rig_ends {
	struct client *a, *b;
};
struct agent_rig_ends agent_rig_nodes_up(struct rig *rig);
/* With an agent, too. */
struct agent_rig_ends agent_rig_nodes_up_with_agent(struct rig *rig);

#endif
