/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An upgrade: a successor takes this proxy's place. The running proxy has the
 * successor started beside itself (starter.h). The successor reads its settings and
 * opens its rails, then sends "ready" over a socket, the link. The running proxy sends
 * "take" with the control socket, at which the successor accepts from then on, and has
 * each client attach there and register its memory. If anything fails until then, the
 * running proxy continues and reports why. It sends "go" and ends without closing any
 * connection. The successor then locks the run directory and serves, and the ranks
 * resume with it. Control thread.
 */
#ifndef MPIB_PROXY_UPGRADE_H
#define MPIB_PROXY_UPGRADE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/loop.h"
#include "config/config.h"

struct proxy_clients;

/* State of the running proxy. */
struct mpib_upgrade {
	struct mpib_loop *loop;
	const struct mpib_config *cfg;
	struct proxy_clients *clients;
	int starter; /* its socket; -1: none */
	int link; /* to the successor; -1: no upgrade is in progress */
	pid_t pid; /* of the successor; 0: not known yet */
	uint32_t number; /* how many there were */
	bool took; /* "take" was sent: this proxy accepts no client */
	uint64_t
		until; /* when the clients must have attached to the successor */
	bool leaves; /* "go" was sent: end silently */
	struct mpib_io watch;
	struct mpib_timer timer;
	char path[512]; /* of the last successor */
	char why[MPIB_WHY_MAX]; /* why the last upgrade failed, or "" */
};

void mpib_upgrade_init(struct mpib_upgrade *u, struct mpib_loop *loop,
		       const struct mpib_config *cfg,
		       struct proxy_clients *clients, int starter);
/* Start the program at path as the successor, or with "" the file that this proxy
 * was executed from. If the upgrade fails, now or later, u->why is set. */
void mpib_upgrade_begin(struct mpib_upgrade *u, const char *path);
/* Abort an upgrade that is in progress. */
void mpib_upgrade_stop(struct mpib_upgrade *u);

/* Call this first in main(), in any process: it finds out whether this process is a
 * successor. */
void mpib_succession_find(void);
/* Whether this process is a successor whose predecessor has not ended. */
bool mpib_succession(void);
/* Report to the running proxy why this successor cannot start. */
void mpib_succession_fail(const char *why);
/* The rails are open: send "ready", and get the control socket. -errno, with why, if
 * the running proxy continues. */
int mpib_succession_take(const struct mpib_config *cfg, int *control,
			 char *why);
/* Turn the loop until the running proxy has ended. -errno, with why, if it continues. */
int mpib_succession_wait(struct mpib_loop *loop, char *why);

#endif
