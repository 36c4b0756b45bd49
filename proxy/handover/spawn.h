/* SPDX-License-Identifier: Apache-2.0 */
/* Starting the new proxy's process. Control thread of the old proxy. */
#ifndef MPIB_PROXY_HANDOVER_SPAWN_H
#define MPIB_PROXY_HANDOVER_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

struct mpib_spawn {
	const char *path;
	char **argv; /* the old proxy's, also given to the new one */
	int cwd; /* directory to start in; -1: the present one */
};

/*
 * Take all descriptors below 64, so that nothing which comes from users is among them:
 * mpib_spawn() lets the new process have no others, not even until it executes its
 * program. Before there are others, but for how.cwd. Not where few may be open, nor has
 * it an effect before Linux 5.9: then an upgrade waits for the close of what is being
 * closed meanwhile.
 */
void mpib_spawn_reserve(void);

/* *sock is the old proxy's end of the channel. -errno: no process was made, or
 * path cannot be executed. */
int mpib_spawn(const struct mpib_spawn *how, int *sock, pid_t *pid);

/*
 * If this process will have to stay as a guard (guard.h) after it handed over,
 * make the guard's link and become the subreaper of all later proxies. It need
 * not when inherited, the link of an earlier guard, is not -1. -errno.
 */
int mpib_spawn_guard(int inherited, bool daemon, int *link);

#endif
