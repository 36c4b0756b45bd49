/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second half of an upgrade, from the moment the new process has its rails
 * open: what clients have begun comes to its end, the new one maps their
 * memory, the traffic stops, and everything is handed over. The last step does
 * not return; each before it can be undone. Control thread.
 */
#ifndef MPIB_PROXY_HANDOVER_GIVING_H
#define MPIB_PROXY_HANDOVER_GIVING_H

#include "base/serial.h"
#include "stats/upgrade.h"

/* The new one is ready: its rails are open. */
void mpib_source_settle(struct mpib_upgrade *u);
/* It has the clients' memory. */
void mpib_source_fence(struct mpib_upgrade *u);
/* Take up again what was stopped, if anything was. -errno: a shard does not
 * start again. */
int mpib_source_undo(struct mpib_upgrade *u);
/* Whoever waits for the first process, or reads proxy.pid, is to know that pid
 * serves. */
void mpib_handover_tell(struct mpib_proxy *p, pid_t pid);
/* How long all may stand still while the new one reads what is handed over:
 * other nodes hear nothing of us, and give us up after silence_s. */
unsigned mpib_source_limit_ms(unsigned silence_s);
/* Why the other end of the channel failed; p is its answer or NULL. */
const char *mpib_source_last_error(int rc, const struct mpib_serial *p);

/* upgrade.c: the new one is gone, go on as if nothing had been. */
void mpib_upgrade_give_up(struct mpib_upgrade *u, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
