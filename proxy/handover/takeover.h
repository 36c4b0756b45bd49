/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The new proxy's side of a hand-over. The old proxy, which serves, starts it
 * with --takeover=SOCKET; the new proxy takes over all that the old one has, or
 * tells the old one why it cannot, and ends. Control thread.
 */
#ifndef MPIB_PROXY_HANDOVER_TAKEOVER_H
#define MPIB_PROXY_HANDOVER_TAKEOVER_H

#include "base/loop.h"
#include "handover/state.h"

struct mpib_config;
struct mpib_proxy;

struct mpib_takeover {
	int sock;
	struct mpib_base base;
	uint64_t began_ns; /* when the old proxy stopped the traffic */
	uint64_t blackout_ns; /* how long it stood still; 0: it still does */
	struct mpib_io guard_watch;
	struct mpib_timer timer;
};

/* Receive BASE from the old proxy and check that it fits cfg, in which rails
 * that nobody named become the old proxy's. -errno, with why as in config.h. */
int mpib_takeover_begin(struct mpib_takeover *t, struct mpib_config *cfg,
			char *why);
/* Tell the old proxy why the take-over failed; the old proxy goes on. */
void mpib_takeover_refuse(const struct mpib_takeover *t, const char *why);
/*
 * Receive clients and state; blocks, waiting for the old proxy. Before: engine
 * and broker are open but idle, and no client's socket is watched. 0: this
 * process has all that the old proxy had, which has ended or is ending; -errno
 * and why: it has nothing, and has changed nothing.
 */
int mpib_takeover_state(struct mpib_proxy *p, char *why);
/* Start shards, peers and clients again. -errno: a part does not start. */
int mpib_takeover_go_on(struct mpib_proxy *p);

#endif
