/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The old proxy's second half of a hand-over, from the moment the new proxy has
 * its rails open: let clients' requests in progress finish, have the new proxy
 * map the clients' memory, stop the traffic, hand over the rest. The last step
 * does not return; every step before can be undone. Control thread.
 */
#ifndef MPIB_PROXY_HANDOVER_SOURCE_H
#define MPIB_PROXY_HANDOVER_SOURCE_H

#include "base/serial.h"
#include "stats/upgrade.h"

/* The new proxy sent READY: its rails are open. */
void mpib_source_settle(struct mpib_upgrade *u);
/* The new proxy sent MAPPED: it has the clients' memory. */
void mpib_source_fence(struct mpib_upgrade *u);
/* Start again whatever was stopped so far. -errno: a shard does not start. */
int mpib_source_undo(struct mpib_upgrade *u);
/* Tell the guard that pid serves now, and write it into proxy.pid. */
void mpib_handover_tell(struct mpib_proxy *p, pid_t pid);
/* How long this process may block while the new proxy reads the state. Peers
 * hear nothing meanwhile, and give this node up after silence_s. */
unsigned mpib_source_limit_ms(unsigned silence_s);
/* Text for rc of the channel functions; p is the new proxy's answer or NULL. */
const char *mpib_source_last_error(int rc, const struct mpib_serial *p);

/* upgrade.c: end the new proxy and go on serving; fmt says why. */
void mpib_upgrade_give_up(struct mpib_upgrade *u, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
