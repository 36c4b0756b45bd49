/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's end of mpib/agent.h: the hint file, who holds which entry, and
 * the proxies that register. One thread.
 */
#ifndef MPIB_AGENT_SLOTS_H
#define MPIB_AGENT_SLOTS_H

#include <mpib/agent.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "base/loop.h"

#define MPIB_AGENT_WHY 256

struct mpib_agent_proxy; /* one that is connected */

struct mpib_agent_slot {
	struct mpib_agent_proxy *proxy; /* NULL: free */
	uint64_t conn_id;
	uint32_t sup_bw; /* as written */
	struct mpib_agent_slot_rail {
		uint64_t acked_bytes, busy_ns; /* at the last look */
		uint64_t rate; /* bytes per ms, smoothed; 0: unknown */
	} rail[MPIB_RAILS];
};

struct mpib_agent {
	struct mpib_loop loop;
	char dir[96];
	int dir_fd, fd;
	struct mpib_io watch;
	struct mpib_timer pause; /* of watch, without descriptors */
	struct mpib_hint_shm *shm;
	struct mpib_agent_slot slot[MPIB_HINT_MAX_ENTRIES];
	TAILQ_HEAD(, mpib_agent_proxy) proxies;
	/* What a connection gets before anything is known of it. */
	uint32_t first;
};

/* Make dir if need be, a new hint file in it, and listen. -errno with why,
 * "what: why (remedy)". */
int mpib_agent_start(struct mpib_agent *a, const char *dir, uint32_t first,
		     char *why);
void mpib_agent_stop(struct mpib_agent *a);

/* Of a slot that is held. Nothing when it is so already. */
void mpib_agent_hint(struct mpib_agent *a, unsigned slot, uint32_t sup_bw);
/* Whose: the pid in its conn_id. */
uint64_t mpib_agent_pid(const struct mpib_agent_slot *s);

#endif
