/* SPDX-License-Identifier: Apache-2.0 */
/* The new proxy's process. Control thread. */
#ifndef MPIB_PROXY_HANDOVER_SPAWN_H
#define MPIB_PROXY_HANDOVER_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

struct mpib_spawn {
	const char *path;
	char **argv; /* ours, which the new one gets, too */
	int cwd; /* -1: where we are */
};

/* sock is our end of the socket between the two. -errno: there is no process;
 * one that cannot execute path ends with status 127. */
int mpib_spawn(const struct mpib_spawn *how, int *sock, pid_t *pid);

/*
 * Whether this process will have to stay as a guard (guard.h): then link is
 * made, of which the new ones get the proxies' end, and we become the reaper of
 * those that they start. inherited is the end of an earlier guard's.
 */
int mpib_spawn_guard(int inherited, bool daemon, int *link);

#endif
