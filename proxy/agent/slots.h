/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's side of mpib/agent.h: the hint file, the assignment of
 * connections to its entries, and the connected proxies. The agent has one
 * thread.
 */
#ifndef MPIB_AGENT_SLOTS_H
#define MPIB_AGENT_SLOTS_H

#include <mpib/agent.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/hash.h"
#include "base/loop.h"
#include "base/users.h"

#define MPIB_AGENT_WHY 256
#define MPIB_AGENT_LOCK "lock"

struct mpib_agent_proxy; /* a connected proxy */

/* A registered connection. */
struct mpib_agent_held {
	struct mpib_agent_held_key {
		struct mpib_agent_proxy *proxy;
		uint64_t id;
	} key;
	uint32_t slot;
	UT_hash_handle hh;
};

/* An entry of the hint file. Connections share an entry if they have the same
 * peer and the same mode, and if all or none of them have SUP. */
struct mpib_agent_slot {
	uint32_t users; /* connections; 0: the slot is free */
	uint32_t dst_ip; /* as in the hint file */
	uint32_t sup_bw; /* SUP's share, as in the hint file */
	bool alone; /* the connections have no SUP */
	bool adaptive; /* with MPIB_HINT_OWN, their proxy decides the split */
	/* The decision of decide.h for these connections. */
	struct mpib_agent_choice {
		uint32_t sup_bw;
		uint64_t since; /* seconds of the epoch */
		char why[MPIB_AGENT_REASON];
		unsigned number; /* of the reason, unique over all slots */
	} choice;
};

struct mpib_agent {
	struct mpib_loop loop;
	char dir[96];
	int dir_fd, lock, fd;
	struct mpib_acceptor acceptor;
	void *shm; /* the hint file, of MPIB_HINT_SLOTS_MAX entries */
	struct mpib_agent_slot slot[MPIB_HINT_SLOTS_MAX];
	struct mpib_agent_held *held;
	unsigned reasons; /* number of reasons so far */
	TAILQ_HEAD(, mpib_agent_proxy) proxies;
	/* Proxies of this user, of root and of the agent's user are served. */
	uid_t user;
	/* Called with a new slot, before the proxy learns its number; or
	 * NULL. */
	void (*taken)(void *ctx, unsigned slot);
	void *ctx;
};

/* Create `dir` if it does not exist, create a new hint file in it, and listen
 * for proxies of root, of the agent's own user and of the user named `user`, if
 * that user exists. On failure, return -errno and write "what: why (remedy)" to
 * `why`. */
int mpib_agent_start(struct mpib_agent *a, const char *dir, const char *user,
		     char *why);
void mpib_agent_stop(struct mpib_agent *a);

/* Write sup_bw into the hint file's entry of a slot in use, unless the entry
 * has that value already. */
void mpib_agent_hint(struct mpib_agent *a, unsigned slot, uint32_t sup_bw);
/* Send the summary s and the reasons of new hints to each proxy that reads
 * summaries. */
void mpib_agent_tell(struct mpib_agent *a, const struct mpib_agent_summary *s);

#endif
