/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Talking to systemd: notifications, watchdog, socket activation. Without
 * libsystemd, or when systemd did not start the proxy, every call does nothing.
 * Control thread.
 */
#ifndef MPIB_PROXY_NOTIFY_H
#define MPIB_PROXY_NOTIFY_H

#include <stdint.h>

/* Have a thread send notifications from now on, so that a systemd that is stuck
 * blocks nothing. Call it after the last fork(). 0 or -errno. */
int mpib_notify_start(void);
/* Wait until all are sent, at most 1 s: before the process ends. */
void mpib_notify_drain(void);

/* Send lines as of sd_notify(3), such as "STOPPING=1". */
void mpib_notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The interval in ns within which systemd expects WATCHDOG=1; 0: it does not.
 */
uint64_t mpib_watchdog(void);

/* The listening SOCK_SEQPACKET socket that systemd passed (socket activation);
 * -1 when systemd passed none. */
int mpib_activation_socket(void);

#endif
