/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy's side of mpib/agent.h: find an agent, register connections with
 * the agent and tell each connection the number of its hint. An agent may
 * start, exit and restart at any time. Without an agent, connections have no
 * hint: in advanced mode they stay on SOUT. Control thread; nothing blocks.
 */
#ifndef MPIB_AGENT_AGENT_H
#define MPIB_AGENT_AGENT_H

#include <mpib/agent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/loop.h"
#include "engine/engine.h"

#define MPIB_AGENT_NO_USER ((uid_t)-1)

struct mpib_agent_link;
struct mpib_agent_conn;

/* IPv4 addresses of a connection's rails, network order; 0 if SUP has none. */
struct mpib_agent_route {
	uint32_t sout_src, sout_dst;
	uint32_t sup_src, sup_dst;
};

/*
 * Start looking for an agent in the directory `dir`. The agent must belong to
 * root, to our user or to `user` (MPIB_AGENT_NO_USER: no third user).
 * `adaptive`: the engine is in adaptive mode, so it decides the split of each
 * connection that has no hint. This call sets where the engine's shards read
 * hints, so make it before the first connection is created. Return 0 or -errno.
 */
int mpib_agent_open(struct mpib_loop *loop, struct mpib_engine *engine,
		    const char *dir, uid_t user, bool adaptive,
		    struct mpib_agent_link **link);
/* Close the link. Call it after mpib_engine_close(), because the shards read
 * hints until then. NULL is ignored. */
void mpib_agent_close(struct mpib_agent_link *link);

/* Register the sending connection conn with the agent, and with every later
 * agent. Return NULL if memory is short or `link` is NULL: the connection then
 * has no hint. */
struct mpib_agent_conn *mpib_agent_add(struct mpib_agent_link *link,
				       struct engine_conn *conn,
				       const struct mpib_agent_route *route);
/* Return the connected agent's valid summary, and the agent's pid. NULL: no
 * summary, or no agent. `link` may be NULL. */
const struct mpib_agent_summary *
mpib_agent_heard(const struct mpib_agent_link *link, pid_t *pid);
/* Return the rails that this node's proxy has to drain for the agent, one bit
 * per rail; the lowest bit is SOUT. `link` may be NULL. */
uint8_t mpib_agent_sick(const struct mpib_agent_link *link);
/* Return the reason of a hint; NULL: the agent sent no reason. `link` may be
 * NULL. */
const struct mpib_agent_reason *
mpib_agent_reason(const struct mpib_agent_link *link, uint32_t slot);
/* Deregister. Call it before the connection is destroyed. NULL is ignored. */
void mpib_agent_del(struct mpib_agent_conn *conn);

/*
 * Open the agent's directory. Returns an fd or -errno; -EPERM if the owner is
 * not root, this process's user or `user`, or if the group or others may write
 * to the directory.
 */
int mpib_agent_dir_open(const char *dir, uid_t user);
/* Connect to the agent's socket in dir. Returns a non-blocking fd or -errno. */
int mpib_agent_dial(int dir, uid_t user);
/* Open the hint file in `dir`. Check its owner and mode like those of the
 * directory, then its size and header (-EPROTO). Return an fd, and set *slots
 * to the number of entries; or return -errno. */
int mpib_agent_hints_open(int dir, uid_t user, uint32_t *slots);
/* Return a text for the result rc of these three calls, with a remedy if there
 * is one. */
const char *mpib_agent_dir_error(int rc);

#endif
