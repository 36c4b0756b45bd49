/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hand-over of a whole broker: whether it can be done now, the order in
 * which its parts are serialized, and the start in the new process. Control
 * thread.
 */
#include <errno.h>
#include <stdio.h>

#include "engine/handover/handover.h"
#include "peer/handover/serialize.h"

static bool conn_settled(const struct peer_conn *c)
{
	if (c->state == PEER_CONN_OVER)
		return !c->conn && !c->lane && !c->dropped;
	return c->state == PEER_CONN_READY || c->state == PEER_CONN_ACCEPT ||
	       c->state == PEER_CONN_HELD;
}

static int lane_settled(struct peer_lane *l, char *why, size_t why_len)
{
	bool can = l->state == PEER_LANE_UP && mpib_lane_can_move(l->lane);

	if (!mpib_peer_quiescent(l->peer)) {
		snprintf(why, why_len, "the link to %s is being made again",
			 l->peer->label);
		return -EAGAIN;
	}
	if (can)
		return 0;
	if (l->state == PEER_LANE_UP && l->uses > 0) {
		snprintf(why, why_len,
			 "connections to %s cannot be moved: they have no "
			 "fail-over between two rails (close them first)",
			 l->peer->label);
		return -EBUSY;
	}
	if (l->state == PEER_LANE_UP)
		peer_lane_kill(l, -ECANCELED, "its proxy is upgraded");
	snprintf(why, why_len, "a lane to %s is on its way", l->peer->label);
	return -EAGAIN;
}

int mpib_broker_quiescent(struct mpib_broker *b, char *why, size_t why_len)
{
	struct peer_lane *l, *next;
	int again = 0, rc;

	for (const struct peer_conn *c = b->conns; c; c = c->hh.next) {
		if (conn_settled(c))
			continue;
		snprintf(why, why_len,
			 "connection %u of client %u is being opened or closed",
			 c->index, engine_client_id(c->client->engine_client));
		again = -EAGAIN;
	}
	HASH_ITER(hh, b->lanes, l, next)
	{
		rc = lane_settled(l, why, why_len);
		if (rc == -EBUSY)
			return rc;
		again = rc < 0 ? rc : again;
	}
	return again;
}

/* A lane that is not up carries nothing that could be handed over. */
static void press_lane(struct peer_lane *l)
{
	if (l->state == PEER_LANE_ASKED)
		peer_lane_kill(l, -ECANCELED, "its proxy is upgraded");
}

void mpib_broker_press(struct mpib_broker *b)
{
	struct peer_conn *c, *next;
	struct peer_lane *l, *after;

	HASH_ITER(hh, b->lanes, l, after)
	press_lane(l);
	HASH_ITER(hh, b->conns, c, next)
	{
		/* The peer does not answer: only the end of the lane does. A
		 * connect that the peer has is not ended, for nothing would settle
		 * by that: it goes on here. */
		if (c->state == PEER_CONN_OVER && !conn_settled(c) && c->lane)
			peer_lane_kill(c->lane, -ECANCELED,
				       "its proxy is upgraded, and a "
				       "connection of this lane did not "
				       "come to its end");
	}
}

void mpib_broker_serialize(struct mpib_serial *p, struct mpib_broker *b,
			   peer_client_fn *by_id, void *arg)
{
	struct mpib_broker_serialize x = {
		.p = p, .b = b, .client = by_id, .arg = arg
	};
	uint32_t sout = b->self.sout;

	mpib_serial_mark(p, "broker");
	mpib_serial_node(p, &b->self);
	b->self.sout = sout;
	mpib_serial_u32(p, &b->next_id);
	mpib_serial_u64(p, &b->serial);
	mpib_serial_u64(p, &b->sessions);
	mpib_serial_raw(p, &b->second, sizeof(b->second));
	for (unsigned i = 0; i < MPIB_DOORS; i++)
		mpib_serial_fd(p, &b->door[i].fd);
	mpib_serial_peers(&x);
	mpib_serial_listeners(&x);
	mpib_serial_conns(&x);
	mpib_serial_mark(p, "end");
}

int mpib_broker_go_on(struct mpib_broker *b)
{
	struct peer_lane *l;
	struct peer_conn *c;
	struct mpib_peer *p;
	int rc;

	mpib_second_move(b);
	rc = mpib_hello_accept(b);

	for (c = b->conns; c; c = c->hh.next) {
		struct mpib_peer_msg m = {
			.type = MPIB_PEER_CONN_MOVED,
			.to = c->their_id,
		};

		if (c->state != PEER_CONN_READY)
			continue;
		engine_conn_local(c->conn, &m.conn);
		peer_lane_tell(c->lane, &m);
		peer_conn_want_hint(c);
	}
	for (l = b->lanes; l; l = l->hh.next)
		peer_lane_watch_idle(l);
	TAILQ_FOREACH(p, &b->peers, entry)
	{
		if (p->state == MPIB_PEER_UP && rc == 0)
			rc = mpib_link_listen(p->link, true);
	}
	mpib_broker_hold(b, false);
	peer_ask_go_on(b);
	return rc;
}
