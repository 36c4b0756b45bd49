/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The new proxy's side of an upgrade: started with --takeover=SOCKET by the one
 * that serves, it takes over what that has, or says why not and ends.
 */
#ifndef MPIB_PROXY_HANDOVER_TAKEOVER_H
#define MPIB_PROXY_HANDOVER_TAKEOVER_H

#include "base/loop.h"
#include "handover/base.h"

struct mpib_config;
struct mpib_proxy;

struct mpib_takeover {
	int sock;
	struct mpib_base base;
	uint64_t began_ns; /* when the old one stopped the traffic */
	uint64_t blackout_ns; /* until it went on; 0: it has not yet */
	struct mpib_io guard_watch;
	struct mpib_timer timer;
};

/* What the old one offers, and whether that fits. -errno and why as in
 * config.h. */
int mpib_takeover_begin(struct mpib_takeover *t, const struct mpib_config *cfg,
			char *why);
/* Tell the old one why it has to go on. */
void mpib_takeover_refuse(const struct mpib_takeover *t, const char *why);
/*
 * Engine and broker are open, idle; clients listen to nobody. Returns 0 when
 * all that the old one had is ours, to go on with; -errno and why: nothing is,
 * and nothing was changed. Waits for the old one.
 */
int mpib_takeover_state(struct mpib_proxy *p, char *why);
/* Go on. -errno: some of it cannot. */
int mpib_takeover_go_on(struct mpib_proxy *p);

#endif
