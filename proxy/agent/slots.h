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

/* The last entries of the hint file are for connections that find no entry of
 * their own: one for all to a peer that are of one mode, with SUP or without. */
#define MPIB_AGENT_SHARED 256u
#define MPIB_AGENT_OWN (MPIB_HINT_SLOTS_MAX - MPIB_AGENT_SHARED)

#define MPIB_AGENT_WHY 256
#define MPIB_AGENT_LOCK "lock"

struct mpib_agent_proxy; /* a connected proxy */
struct mpib_agent_rule;

/* A registered connection. */
struct mpib_agent_held {
	struct mpib_agent_held_key {
		struct mpib_agent_proxy *proxy;
		uint64_t id;
	} key;
	uint32_t slot;
	unsigned told; /* the reason of its slot that its proxy was told last */
	UT_hash_handle hh;
};

struct mpib_agent_slot {
	uint32_t users; /* 0: free; only from MPIB_AGENT_OWN on more than 1 */
	uint32_t src_ip, dst_ip; /* as in the hint file */
	uint64_t conn_id; /* of a slot that is not shared */
	uint32_t sup_bw; /* SUP's share, as in the hint file */
	bool alone; /* it has no SUP */
	bool adaptive; /* its proxy splits by itself what has MPIB_HINT_OWN */
	/* What the statistics of the connection's proxy say, if it is known. */
	bool known;
	uid_t uid;
	uint8_t class;
	uint32_t client, index;
	uint64_t rtt_ns[MPIB_RAILS]; /* 0: unknown, or not measured anew */
	/* decide.h: what is right for it, for what reason and since when. */
	struct mpib_agent_choice {
		const struct mpib_agent_rule *rule;
		unsigned age; /* of the configuration that rule is of */
		uint32_t sup_bw, balance;
		uint64_t since; /* seconds of the epoch */
		uint64_t slow_ns[MPIB_RAILS]; /* last seen slow; 0: not */
		char why[MPIB_AGENT_REASON];
		unsigned told; /* counts reasons, which proxies are told */
	} choice;
	struct mpib_agent_slot_rail {
		uint64_t acked_bytes, busy_ns; /* last sample */
		uint64_t rate; /* bytes per ms, smoothed; 0: unknown */
		uint64_t timed_bytes; /* acknowledged at the last look */
	} rail[MPIB_RAILS];
};

struct mpib_agent {
	struct mpib_loop loop;
	char dir[96];
	int dir_fd, lock, fd;
	struct mpib_acceptor acceptor;
	void *shm; /* the hint file, of MPIB_HINT_SLOTS_MAX entries */
	struct mpib_agent_slot slot[MPIB_HINT_SLOTS_MAX];
	struct mpib_agent_held *held;
	uint32_t sharing; /* connections whose slot is from MPIB_AGENT_OWN on */
	uint32_t refused; /* REGISTERs answered by -ENOSPC */
	bool told; /* warned: entries are short */
	TAILQ_HEAD(, mpib_agent_proxy) proxies;
	uid_t user; /* of proxies, besides root and our own */
	/* SUP's share of a connection that has just registered. */
	uint32_t first;
	/* If set: called when it has its slot, before its proxy is told. */
	void (*taken)(void *ctx, unsigned slot);
	void *ctx;
};

/* Create dir if it is missing and a new hint file in it, and listen for proxies
 * of root, of our user and of the user of that name, if there is one. On error
 * -errno, and why holds "what: why (remedy)". */
int mpib_agent_start(struct mpib_agent *a, const char *dir, const char *user,
		     uint32_t first, char *why);
void mpib_agent_stop(struct mpib_agent *a);

/* slots.c. 0, or -EPERM: others made the directory or may write there. */
int mpib_agent_check_dir(const struct mpib_agent *a);
/* Create the hint file and map it. 0 or -errno. */
int mpib_agent_make_hints(struct mpib_agent *a);
/* Bind only: who can connect later, when this end listens, finds this agent's
 * hint file. group: that of a->user, which may connect; -1: none. -EADDRINUSE:
 * another agent serves the directory; -errno. */
int mpib_agent_bind(struct mpib_agent *a, gid_t group);

/* Write sup_bw into the hint file's entry of a slot that is held; does nothing
 * when the entry has that value already. */
void mpib_agent_hint(struct mpib_agent *a, unsigned slot, uint32_t sup_bw);
/* Tell each proxy that takes it the summary, if another was told, and the reasons of
 * its connections' hints that are new. */
void mpib_agent_tell(struct mpib_agent *a, const struct mpib_agent_summary *s);
/* Have each shared slot balance as connections with slots of their own to the
 * same peer do, in the mean; a peer without any keeps what it has. */
void mpib_agent_follow(struct mpib_agent *a);
/* The pid of the proxy that registered the slot, taken from its conn_id. */
uint64_t mpib_agent_pid(const struct mpib_agent_slot *s);

#endif
