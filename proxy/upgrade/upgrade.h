/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An upgrade: a successor takes this proxy's place. The running proxy has the
 * successor started beside itself, by the starter. The successor reads its settings and
 * opens its rails, then sends "ready" over a socket, the link. The running proxy sends
 * "take" with the control socket, at which the successor accepts from then on, and has
 * each client attach there and register its memory. If anything fails until then, the
 * running proxy continues and reports why. It sends "go" and ends without closing any
 * connection. The successor then locks the run directory and serves, and the ranks
 * resume with it. Control thread.
 */
#ifndef MPIB_PROXY_UPGRADE_H
#define MPIB_PROXY_UPGRADE_H

#include <limits.h>
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

/*
 * The starter: a child process of the proxy that executes the successor of an
 * upgrade. The proxy cannot do that itself: a fork would disturb its threads and its
 * registered memory, and its system call filter refuses execve(). The starter
 * executes only files that are protected as well as the proxy's own program, so
 * code that was injected into the proxy cannot execute a file that it wrote.
 *
 * mpib_text_send(starter, path, link) has it execute path ("": the file that the
 * proxy was executed from) with the proxy's arguments and environment. The successor
 * inherits the socket link, which the caller still owns. The other end of link
 * receives "pid N PATH" and then the messages of the successor, or "error WHY".
 */

/* The environment variable with the successor's descriptor of the link. */
#define MPIB_SUCCEEDS "MPIB_SUCCEEDS"

/* Fork the starter, which exits when this process ends. argv is main()'s. It
 * calls begin() first, unless that is NULL. Call this before threads are created and
 * before mpib_sandbox(). Returns the starter's socket, or -errno. */
int mpib_starter_fork(char **argv, void (*begin)(void));

/* Send text with a descriptor, which stays the caller's. 0 or -errno. */
int mpib_text_send(int sock, const char *text, int fd);
/* Wait for a text with a descriptor, which is then the caller's; -1: the other end has
 * ended, or sent something else. */
int mpib_text_receive(int sock, char text[PATH_MAX]);

#endif
