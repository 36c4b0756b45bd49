/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Going to the background. The process that was started exits only when the
 * daemon is ready, or with the daemon's error. Start-up only, before there are
 * threads.
 */
#ifndef MPIB_PROXY_DAEMON_H
#define MPIB_PROXY_DAEMON_H

/*
 * Returns only in the daemon, a grandchild: 0, with *report to be passed to
 * mpib_daemon_report(). The process that was started prints that report and
 * exits with its status. -errno, in the starter, when it cannot fork.
 */
int mpib_daemon_start(int *report);

/* Report status to the starter, which prints text: with 0 on stdout, the ready
 * line; else on stderr, an error. With 0 mpib_daemon_settle() as well. Closes
 * report. */
void mpib_daemon_report(int report, int status, const char *text);

/* Leave the terminal and the start directory, and log to syslog from now on. */
void mpib_daemon_settle(void);
/* Leave the terminal: read and write /dev/null in its place. */
void mpib_daemon_hush(void);

#endif
