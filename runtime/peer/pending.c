/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells tools which connections are not ready yet and why. Control thread.
 */
#include "peer/internal.h"

const char *peer_conn_last_error(const struct peer_conn *c)
{
	if (c->why[0]) /* it was tried before */
		return c->why;
	switch (c->state) {
	case PEER_CONN_LINK:
		return c->peer->last_error[0] ? c->peer->last_error
					      : "no answer";
	case PEER_CONN_LANE:
		return "its proxy answers, but not for a lane";
	case PEER_CONN_WAIT:
		return "its sender has not asked for it again";
	case PEER_CONN_ACCEPT:
		return "nobody connects to it";
	default:
		return "nobody accepts there";
	}
}

static bool pending_one(const struct peer_conn *c)
{
	return c->state < PEER_CONN_READY;
}

void mpib_broker_pending(const struct peer_client *client, uint64_t older_ns,
			 mpib_pending_fn *fn, void *arg)
{
	unsigned left = client->conns;

	for (unsigned i = 0; left > 0 && i < MPIB_CONNS_MAX; i++) {
		const struct peer_conn *c = client->conn[i];
		struct mpib_pending p;

		if (!c)
			continue;
		left--;
		p = (struct mpib_pending){
			.index = c->index,
			.sender = c->sender,
			.peer = c->peer ? c->peer->label : "",
			.why = peer_conn_last_error(c),
			.age_ns = mpib_loop_now(c->broker->loop) - c->since,
		};
		if (pending_one(c) && p.age_ns >= older_ns)
			fn(arg, &p);
	}
}
