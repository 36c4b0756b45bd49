/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Upgrades as the stats socket commands them; proxy/handover/upgrade.c has the
 * code. The old proxy starts the new program as a second process and lets it
 * open the rails; only when the new proxy is ready does the old one stop the
 * traffic, hand everything over and end. Until the new proxy has confirmed that
 * it has everything, any failure makes the old proxy go on. Control thread.
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
	MPIB_UPGRADE_STARTING, /* the new proxy gets ready */
	MPIB_UPGRADE_SETTLING, /* clients' requests in progress finish */
	MPIB_UPGRADE_MAPPING, /* the new proxy maps the clients' memory */
	MPIB_UPGRADE_FENCING, /* the traffic stands still */
};

/* Killed new proxies of failed upgrades that may be ending at once. */
#define MPIB_UPGRADE_DYING 4

struct mpib_upgrade {
	struct mpib_proxy *proxy;
	char exe[256]; /* path of this process's program at start-up */
	char **argv; /* arguments of this process */
	int cwd; /* start directory, to which paths in argv are relative */
	enum mpib_upgrade_state state;
	uint32_t count; /* upgrades that succeeded, in all processes */
	bool over; /* the proxy stops: none begins any more */
	bool force; /* connections end that cannot be handed over */
	bool failed; /* the latest upgrade failed; error says why */
	char error[MPIB_WHY_MAX];
	pid_t pid; /* of the new proxy */
	int sock, guard[2]; /* channel; the guard's link; -1 while closed */
	pid_t dying
		[MPIB_UPGRADE_DYING]; /* killed, and not reaped yet; 0: none */
	struct mpib_timer reap;
	struct mpib_io watch;
	struct mpib_timer timer;
	/* What clients, and what peers, did not settle was told to end. */
	bool pressed, peers_pressed;
	uint64_t deadline, began_ns;
	uint64_t paused_ns; /* clients get no answers since */
};

/* Early in main(). The caller keeps argv, which must stay valid. */
void mpib_upgrade_init(struct mpib_upgrade *u, struct mpib_proxy *p,
		       char **argv);
/* Begin an upgrade to the program at path; NULL: the file now at the running
 * program's path. force: connections that cannot be handed over, or whose peer does
 * not answer, end instead of it. 0, or -errno with u->error set; -EALREADY without
 * it. -ESHUTDOWN: the proxy stops. */
int mpib_upgrade_start(struct mpib_upgrade *u, const char *path, bool force);
/* The proxy stops: give up an upgrade that is under way, and begin none. */
void mpib_upgrade_stop(struct mpib_upgrade *u);
/* State and outcome of the latest upgrade, for the stats socket. */
json_t *mpib_upgrade_view(const struct mpib_upgrade *u);

#endif
