/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's end of mpib/agent.h: the hint file, which connection holds which
 * entry, and the proxies that are connected. The agent has one thread.
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

/* An entry of the hint file: that of all connections to a peer which are of one
 * mode, with SUP or without. */
struct mpib_agent_slot {
	uint32_t users; /* connections; 0: the slot is free */
	uint32_t dst_ip; /* as in the hint file */
	uint32_t sup_bw; /* SUP's share, as in the hint file */
	bool alone; /* they have no SUP */
	bool adaptive; /* their proxy splits by itself what has MPIB_HINT_OWN */
	/* decide.h: what is right for them, for what reason and since when. */
	struct mpib_agent_choice {
		uint32_t sup_bw;
		uint64_t since; /* seconds of the epoch */
		char why[MPIB_AGENT_REASON];
		unsigned number; /* of the reason, among those of all slots */
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
	unsigned reasons; /* found so far */
	TAILQ_HEAD(, mpib_agent_proxy) proxies;
	uid_t user; /* of proxies, besides root and our own */
	/* If set: called when it has its slot, before its proxy is told. */
	void (*taken)(void *ctx, unsigned slot);
	void *ctx;
};

/* Create dir if it is missing and a new hint file in it, and listen for proxies
 * of root, of our user and of the user of that name, if there is one. On error
 * -errno, and why holds "what: why (remedy)". */
int mpib_agent_start(struct mpib_agent *a, const char *dir, const char *user,
		     char *why);
void mpib_agent_stop(struct mpib_agent *a);

/* Write sup_bw into the hint file's entry of a slot that is held; does nothing
 * when the entry has that value already. */
void mpib_agent_hint(struct mpib_agent *a, unsigned slot, uint32_t sup_bw);
/* Tell each proxy that takes it the summary, if another was told, and the reasons of
 * hints that are new. */
void mpib_agent_tell(struct mpib_agent *a, const struct mpib_agent_summary *s);

#endif
