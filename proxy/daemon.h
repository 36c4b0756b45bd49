/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The change to the background: a process, the starter, forks the daemon. The
 * starter exits only when the daemon is ready or has failed. Start-up only,
 * before any thread is made.
 */
#ifndef MPIB_PROXY_DAEMON_H
#define MPIB_PROXY_DAEMON_H

#include <stdint.h>

#include "base/log.h"

/*
 * Fork the daemon, a grandchild of this process. In the daemon, return 0 and
 * set *report for mpib_daemon_report(). In the starter, print the daemon's
 * report and exit with the status in it; if fork() fails, return -errno.
 */
int mpib_daemon_start(int *report);

/* Report `status` to the starter, which prints `text`. If `status` is 0, `text`
 * is the ready line and goes to stdout; otherwise it is an error and goes to
 * stderr. If `status` is 0, also call mpib_daemon_settle(). Closes `report`. */
void mpib_daemon_report(int report, int status, const char *text);

/* Leave the terminal and the start directory, and log to syslog from now on. */
void mpib_daemon_settle(void);
/* Leave the terminal: read and write /dev/null instead. */
void mpib_daemon_hush(void);

/*
 * The interface to systemd: notifications, watchdog, socket activation. Without
 * libsystemd, or when systemd did not start the proxy, every call does nothing.
 * Control thread.
 */

/* Calls sd_notify(), which blocks while systemd does not read its socket. */
extern struct mpib_writer mpib_notify_writer;

/* Send lines in the format of sd_notify(3), such as "STOPPING=1". */
void mpib_notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Return the interval in ns within which systemd expects WATCHDOG=1; 0: systemd
 * expects none. */
uint64_t mpib_watchdog(void);

/* Return the listening SOCK_SEQPACKET socket that systemd passed (socket
 * activation), or -1. */
int mpib_activation_socket(void);

#endif
