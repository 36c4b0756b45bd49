/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An upgrade: a successor replaces this proxy. The starter starts the successor
 * while the proxy is running. The successor reads its settings and opens its
 * rails, then sends "ready" over a socket, the link. The running proxy answers
 * "take" and passes the control socket, on which the successor accepts from
 * then on. The running proxy tells each client to attach to the successor and
 * to register its memory there. If one of these steps fails, the running proxy
 * continues and reports why. If all succeed, the running proxy sends "go" and
 * exits without closing any connection. The successor then locks the run
 * directory and serves, and the ranks resume with it. Control thread.
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
	int starter; /* socket of the starter; -1: none */
	int link; /* to the successor; -1: no upgrade is in progress */
	pid_t pid; /* of the successor; 0: not known yet */
	uint32_t number; /* number of upgrades so far */
	bool took; /* "take" was sent: this proxy accepts no clients */
	uint64_t until; /* time limit for the clients to attach */
	bool leaves; /* "go" was sent: exit without closing connections */
	struct mpib_io watch;
	struct mpib_timer timer;
	char path[512]; /* of the last successor */
	char why[MPIB_WHY_MAX]; /* why the last upgrade failed, or "" */
};

void mpib_upgrade_init(struct mpib_upgrade *u, struct mpib_loop *loop,
		       const struct mpib_config *cfg,
		       struct proxy_clients *clients, int starter);
/* Start the program at `path` as the successor; "": this proxy's own program
 * file. If the upgrade fails, now or later, u->why is set. */
void mpib_upgrade_begin(struct mpib_upgrade *u, const char *path);

/* Find out whether this process is a successor. main() must call this first. */
void mpib_succession_find(void);
/* Return whether this is a successor whose predecessor has not ended. */
bool mpib_succession(void);
/* Report to the running proxy why this successor cannot start. */
void mpib_succession_fail(const char *why);
/* Send "ready" and get the control socket, after the rails were opened. If the
 * running proxy continues, returns -errno with the reason in `why`. */
int mpib_succession_take(const struct mpib_config *cfg, int *control,
			 char *why);
/* Run the loop until the running proxy has ended. If that proxy continues,
 * returns -errno with the reason in `why`. */
int mpib_succession_wait(struct mpib_loop *loop, char *why);

/*
 * The starter: a child process of the proxy that executes the successor of an
 * upgrade. The proxy cannot do that itself: a fork would disturb its threads
 * and its registered memory, and its system call filter refuses execve(). The
 * starter executes only files that are as well protected as the proxy's own
 * program. So code that was injected into the proxy cannot execute a file that
 * it wrote.
 *
 * After mpib_text_send(starter, path, link), the starter executes the file
 * `path` with the proxy's arguments and environment. If `path` is empty, it
 * executes the proxy's own program file. The successor inherits the socket
 * `link`, which the caller still owns. The other end of `link` receives "pid N
 * PATH" and then the messages of the successor, or "error WHY".
 */

/* The environment variable with the successor's descriptor of the link. */
#define MPIB_SUCCEEDS "MPIB_SUCCEEDS"

/* Fork the starter, which exits when this process ends. argv is main()'s. The
 * starter first calls begin(), unless that is NULL. Call this before threads
 * are created and before mpib_sandbox(). Returns the starter's socket, or
 * -errno. */
int mpib_starter_fork(char **argv, void (*begin)(void));

/* Send text with a descriptor, which the caller still owns. Returns 0 or
 * -errno. */
int mpib_text_send(int sock, const char *text, int fd);
/* Wait for a text with a descriptor, and return the descriptor, which the
 * caller owns. -1: the other end was closed, or sent no descriptor. */
int mpib_text_receive(int sock, char text[PATH_MAX]);

#endif
