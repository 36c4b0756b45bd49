/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections on their way, for who wants to know why one does not come up.
 */
#include "peer/internal.h"

const char *mpib_bconn_trouble(const struct mpib_bconn *c)
{
	switch (c->state) {
	case MPIB_BCONN_LINK:
		return c->peer->trouble[0] ? c->peer->trouble : "no answer";
	case MPIB_BCONN_LANE:
		return "its proxy answers, but not for a lane";
	case MPIB_BCONN_ACCEPT:
		return "nobody connects to it";
	case MPIB_BCONN_HELD:
		return "the proxy is upgraded";
	default:
		return "nobody accepts there";
	}
}

static bool pending(const struct mpib_bconn *c)
{
	return c->state < MPIB_BCONN_READY;
}

void mpib_broker_pending(const struct mpib_owner *owner, uint64_t older_ns,
			 mpib_pending_fn *fn, void *arg)
{
	unsigned left = owner->conns;

	for (unsigned i = 0; left > 0 && i < MPIB_CONNS_MAX; i++) {
		const struct mpib_bconn *c = owner->conn[i];
		struct mpib_pending p;

		if (!c)
			continue;
		left--;
		p = (struct mpib_pending){
			.index = c->index,
			.sender = c->sender,
			.peer = c->peer ? c->peer->label : "",
			.why = mpib_bconn_trouble(c),
			.age_ns = mpib_loop_now(c->broker->loop) - c->since,
		};
		if (pending(c) && p.age_ns >= older_ns)
			fn(arg, &p);
	}
}
