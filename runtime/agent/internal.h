/* SPDX-License-Identifier: Apache-2.0 */
/* The link to an agent, as the files of this room share it. Control thread. */
#ifndef MPIB_AGENT_INTERNAL_H
#define MPIB_AGENT_INTERNAL_H

#include <mpib/agent.h>
#include <sys/queue.h>

#include "agent/agent.h"
#include "base/hash.h"

enum conn_state {
	CONN_NEW, /* to be registered with the agent */
	CONN_ASKED, /* REGISTER sent, no answer yet */
	CONN_HELD, /* the agent gave the connection a hint slot */
	CONN_REFUSED, /* the agent refused; registered again later */
};

TAILQ_HEAD(conn_list, mpib_agent_conn);

struct mpib_agent_conn {
	struct mpib_agent_link *link;
	struct engine_conn *conn; /* NULL: deleted, still to be deregistered */
	uint64_t id;
	struct mpib_agent_route route;
	enum conn_state state;
	TAILQ_ENTRY(mpib_agent_conn) entry, asked_entry;
	UT_hash_handle hh;
};

struct mpib_agent_link {
	struct mpib_loop *loop;
	char dir[96];
	uid_t user; /* besides root and our own, see mpib_agent_open() */
	bool adaptive; /* the mode is: hints are for what an agent steers */
	const char *without; /* what connections do that have no agent */
	/* Always mapped, shm_bytes: an agent's hint file of so many slots, and
	 * zeros behind it. */
	void *shm;
	size_t shm_bytes;
	uint32_t slots; /* 0: no agent */
	int fd; /* -1: no agent */
	struct mpib_io watch;
	struct mpib_timer timer;
	int told; /* the last error logged: each is logged only once */
	uint16_t counter;
	struct conn_list conns;
	struct conn_list asked; /* CONN_ASKED, in the order of the answers */
	struct mpib_agent_summary summary; /* if heard */
	bool heard;
	uint64_t left_ns; /* when who said it hung up; 0: it has not */
	struct mpib_agent_conn *by_id;
};

/* summary.c: take what the agent says. False: no agent would say that. */
bool mpib_agent_hear(struct mpib_agent_link *link,
		     const struct mpib_agent_summary *s);

#endif
