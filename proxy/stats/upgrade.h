/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stats socket asks of an upgrade. It is the serving proxy's side of
 * it, in proxy/handover: it starts the new program as a process beside it, lets
 * that open the rails, and only when it is ready stops the traffic, hands
 * everything over and ends. Until the new one has said that it has it all, the
 * old one can go on, and does whenever anything fails. Control thread.
 */
#ifndef MPIB_PROXY_STATS_UPGRADE_H
#define MPIB_PROXY_STATS_UPGRADE_H

#include <jansson.h>
#include <sys/types.h>

#include "base/loop.h"
#include "config/config.h"

struct mpib_proxy;

enum mpib_upgrade_state {
	MPIB_UPGRADE_NONE,
	MPIB_UPGRADE_STARTING, /* the new one gets ready */
	MPIB_UPGRADE_SETTLING, /* what clients have begun comes to its end */
	MPIB_UPGRADE_MAPPING, /* the new one maps and registers their memory */
	MPIB_UPGRADE_FENCING, /* the traffic stands still */
};

/* Of those that failed one after the other. */
#define MPIB_UPGRADE_DYING 4

struct mpib_upgrade {
	struct mpib_proxy *proxy;
	char exe[256]; /* ours, as it was found at the start */
	char **argv; /* ours */
	int cwd; /* where the arguments mean something */
	enum mpib_upgrade_state state;
	uint32_t count; /* of those that succeeded, in all processes */
	bool failed; /* the last one; error says why */
	char error[MPIB_WHY_MAX];
	pid_t pid; /* of the new one */
	int sock, guard[2]; /* to it; the guard's link; -1 while closed */
	pid_t dying
		[MPIB_UPGRADE_DYING]; /* killed, and not ended yet; 0: none */
	struct mpib_timer reap;
	struct mpib_io watch;
	struct mpib_timer timer;
	uint64_t deadline, began_ns;
};

/* Early in main(): argv stays the caller's. */
void mpib_upgrade_init(struct mpib_upgrade *u, struct mpib_proxy *p,
		       char **argv);
/* Begin; path NULL: the program that runs, as it is on the disk now. 0, or
 * -errno with the error set. */
int mpib_upgrade_start(struct mpib_upgrade *u, const char *path);
/* End one that is under way: the proxy stops. */
void mpib_upgrade_stop(struct mpib_upgrade *u);
/* For the stats socket. */
json_t *mpib_upgrade_view(const struct mpib_upgrade *u);

#endif
