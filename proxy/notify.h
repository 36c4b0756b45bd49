/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What systemd wants to know and what it hands us. Without libsystemd, or when
 * systemd did not start us, every call is harmless. Control thread.
 */
#ifndef MPIB_PROXY_NOTIFY_H
#define MPIB_PROXY_NOTIFY_H

#include <stdint.h>
#include <sys/types.h>

/* A line of sd_notify(3), such as "STOPPING=1". */
void mpib_notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* pid is the service's main process from now on; returns when that is known. */
void mpib_notify_main(pid_t pid);

/* Nanoseconds within which systemd wants to hear WATCHDOG=1; 0: it does not. */
uint64_t mpib_watchdog(void);

/* The listening SOCK_SEQPACKET socket systemd passed (socket activation), -1
 * when it passed none. */
int mpib_activation_socket(void);

#endif
