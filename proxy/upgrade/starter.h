/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The starter: a child process of the proxy that executes the successor of an
 * upgrade. The proxy cannot do that itself: a fork would disturb its threads and its
 * registered memory, and its system call filter refuses execve(). The starter
 * executes only files that are protected as well as the proxy's own program, so
 * code that was injected into the proxy cannot execute a file that it wrote.
 */
#ifndef MPIB_PROXY_STARTER_H
#define MPIB_PROXY_STARTER_H

#include <limits.h>

/* The environment variable with the successor's descriptor of the link. */
#define MPIB_SUCCEEDS "MPIB_SUCCEEDS"

/*
 * Fork the starter, which exits when this process ends. argv is main()'s. It
 * calls begin() first, unless that is NULL. Call this before threads are created and
 * before mpib_sandbox(). Returns the starter's socket, or -errno.
 */
int mpib_starter_fork(char **argv, void (*begin)(void));

/* Send text with a descriptor, which stays the caller's. 0 or -errno. */
int mpib_text_send(int sock, const char *text, int fd);
/* Wait for a text with a descriptor, which is then the caller's; -1: the other end has
 * ended, or sent something else. */
int mpib_text_receive(int sock, char text[PATH_MAX]);

/*
 * mpib_text_send(starter, path, link) has the starter execute path ("": the file that the proxy was executed from)
 * with the proxy's arguments and environment. The successor inherits the socket
 * link, which the caller still owns. The other end of link receives "pid N PATH" and
 * then the messages of the successor, or "error WHY".
 */

#endif
