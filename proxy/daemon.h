/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Going to the background. The process that was started exits only when the
 * daemon is ready, or with the daemon's error. Start-up only, before there are
 * threads.
 */
#ifndef MPIB_PROXY_DAEMON_H
#define MPIB_PROXY_DAEMON_H

#include <stdint.h>

/*
 * Returns only in the daemon, a grandchild: 0, with *report to be passed to
 * mpib_daemon_report(). The process that was started prints that report and
 * exits with its status. -errno, in the starter, when it cannot fork.
 */
int mpib_daemon_start(int *report);

/* Report status to the starter, which prints text: with 0 on stdout, the ready
 * line; else on stderr, an error. With status 0 call mpib_daemon_settle() as
 * well. Closes report. */
void mpib_daemon_report(int report, int status, const char *text);

/* Leave the terminal and the start directory, and log to syslog from now on. */
void mpib_daemon_settle(void);
/* Leave the terminal: read and write /dev/null instead. */
void mpib_daemon_hush(void);

/*
 * Talking to systemd: notifications, watchdog, socket activation. Without
 * libsystemd, or when systemd did not start the proxy, every call does nothing.
 * Control thread.
 */

/* Send notifications on a thread from now on, so that a systemd that hangs
 * blocks nothing. Call it after the last fork(). 0 or -errno. */
int mpib_notify_start(void);
/* Before the process ends: wait until all notifications are sent, at most 1
 * s. */
void mpib_notify_drain(void);

/* Send lines as of sd_notify(3), such as "STOPPING=1". */
void mpib_notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Return the interval in ns within which systemd expects WATCHDOG=1; 0: it
 * expects none.
 */
uint64_t mpib_watchdog(void);

/* Return the listening SOCK_SEQPACKET socket that systemd passed (socket
 * activation), or -1. */
int mpib_activation_socket(void);

#endif
