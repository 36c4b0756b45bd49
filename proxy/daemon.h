/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Going to the background: the process that was started returns to its caller
 * only when the daemon is ready, or with the daemon's error. Start-up only,
 * before there are threads.
 */
#ifndef MPIB_PROXY_DAEMON_H
#define MPIB_PROXY_DAEMON_H

/*
 * In the daemon, a grandchild: 0, and *report is where its outcome goes. The
 * process that was started never returns: it prints what is reported and exits
 * with that status. -errno when it cannot fork.
 */
int mpib_daemon_start(int *report);

/* Tell status (0: text is the ready line, for stdout; else an error, for
 * stderr). When ready the daemon lets go of terminal and directory, and logs
 * to syslog. */
void mpib_daemon_report(int report, int status, const char *text);

/* Of a process that takes over from a daemon: log where that did. */
void mpib_daemon_log(void);

#endif
