/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy's side of mpib/agent.h: finds an agent, registers connections with
 * the agent and tells each connection the number of its hint. An agent may
 * come, go and be restarted at any time; while there is none, connections have
 * no hint: in advanced mode they stay on SOUT. Control thread; nothing blocks.
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

/* What the agent of a node says of that node's rails, as far as it is about one
 * peer. A bit for each rail, SOUT the lowest. */
struct mpib_agent_word {
	bool there; /* there is an agent, and it told */
	uint8_t sick, congested, maintenance;
	char island[MPIB_AGENT_TOLD_ISLAND]; /* of the node, "": of none */
};

/* IPv4 addresses of a connection's rails, network order; 0 if SUP has none. */
struct mpib_agent_route {
	uint32_t sout_src, sout_dst;
	uint32_t sup_src, sup_dst;
};

/*
 * Look for an agent in dir from now on, of root, of our user or of `user`
 * (MPIB_AGENT_NO_USER: no third one). adaptive: the engine's mode is, so that
 * it splits by itself what has no hint, and an agent need not be there. Tells
 * the engine where its shards read hints, so call it before the first
 * connection is made. -errno.
 */
int mpib_agent_open(struct mpib_loop *loop, struct mpib_engine *engine,
		    const char *dir, uid_t user, bool adaptive,
		    struct mpib_agent_link **link);
/* After mpib_engine_close(), for the shards read hints until then. NULL is
 * ignored. */
void mpib_agent_close(struct mpib_agent_link *link);

/* Register conn, which sends, with the agent, now and with every later agent.
 * NULL when memory is short or link is NULL: the connection then has no
 * hint. */
struct mpib_agent_conn *mpib_agent_add(struct mpib_agent_link *link,
				       struct engine_conn *conn,
				       const struct mpib_agent_route *route);
/* What the agent says of this node to the peer whose SOUT has this IPv4 address,
 * network order; 0: to any. */
void mpib_agent_said(const struct mpib_agent_link *link, uint32_t peer,
		     struct mpib_agent_word *word);
/* What the agent that is connected says of itself, and its pid; NULL: nothing yet, or
 * there is no agent. link may be NULL. */
const struct mpib_agent_summary *
mpib_agent_heard(const struct mpib_agent_link *link, pid_t *pid);
/* Why the entry says what it says; NULL: the agent did not tell. link may be NULL. */
const struct mpib_agent_reason *
mpib_agent_reason(const struct mpib_agent_link *link, uint32_t slot);
/* Deregister; call it before the connection is destroyed. NULL is ignored. */
void mpib_agent_del(struct mpib_agent_conn *conn);

/*
 * Open the agent's directory. Returns an fd or -errno; -EPERM unless the
 * directory belongs to root, our user or `user`, and no other may write to it.
 */
int mpib_agent_dir_open(const char *dir, uid_t user);
/* Connect to the agent's socket in dir. Returns a non-blocking fd or -errno. */
int mpib_agent_dial(int dir, uid_t user);
/* Open the hint file in dir. Owner and mode are checked like those of the
 * directory, size and header, too (-EPROTO). Returns an fd, with how many
 * entries the file has in *slots, or -errno. */
int mpib_agent_hints_open(int dir, uid_t user, uint32_t *slots);
/* What rc of these calls means, with the remedy where there is one. */
const char *mpib_agent_dir_error(int rc);

#endif
