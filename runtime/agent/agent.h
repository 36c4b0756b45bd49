/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy's side of mpib/agent.h: finds an agent, registers
 * connections with it and tells each connection which hint is its own. An agent may
 * come, go and be restarted at any time; while there is none, connections have no
 * hint and stay on SOUT. Control thread; nothing blocks.
 */
#ifndef MPIB_AGENT_AGENT_H
#define MPIB_AGENT_AGENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"
#include "engine/engine.h"

struct mpib_agent_link;
struct mpib_agent_conn;

/* IPv4, network order; SUP's are 0 where it has none. */
struct mpib_agent_route {
	uint32_t sout_src, sout_dst;
	uint32_t sup_src, sup_dst;
};

/*
 * Look for an agent in dir from now on. Gives the engine the place where its
 * connections read hints, so before the first connection. -errno.
 */
int mpib_agent_open(struct mpib_loop *loop, struct mpib_engine *engine,
		    const char *dir, struct mpib_agent_link **link);
/* After mpib_engine_close(): its shards read hints to the end. NULL is
 * nothing. */
void mpib_agent_close(struct mpib_agent_link *link);

/* NULL when memory is short, or link is NULL: the connection then has no hint. */
struct mpib_agent_conn *mpib_agent_add(struct mpib_agent_link *link,
				       struct engine_conn *conn,
				       const struct mpib_agent_route *route);
/* Before the connection is destroyed. NULL is nothing. */
void mpib_agent_del(struct mpib_agent_conn *conn);

/*
 * dir.c. An agent's directory, opened: -EPERM unless it belongs to root or to
 * us and nobody else may write in it. An fd.
 */
int mpib_agent_dir_open(const char *dir);
/* Connected to the agent's socket in it. An fd, non-blocking, or -errno. */
int mpib_agent_dial(int dir);
/* The hint file in it, checked as the directory is, of the right size and
 * magic (-EPROTO). An fd. */
int mpib_agent_hints_open(int dir);

#endif
