/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hand-over of a whole broker: whether it can be done now, the order in
 * which its parts are serialized, and the start in the new process. Control
 * thread.
 */
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "engine/handover/handover.h"
#include "peer/handover/serialize.h"

static bool conn_settled(const struct peer_conn *c)
{
	if (c->state == PEER_CONN_OVER)
		return !c->conn && !c->lane && !c->dropped;
	return c->state == PEER_CONN_READY || c->state == PEER_CONN_ACCEPT ||
	       c->state == PEER_CONN_HELD;
}

/* Whether connections would end with the lane, or connects of the peer's. A connect
 * of this node's that the peer has not answered begins anew. */
static bool lane_carries(const struct peer_lane *l)
{
	const struct peer_conn *c;

	TAILQ_FOREACH(c, &l->conns, lane_entry)
	{
		if (c->state == PEER_CONN_READY)
			return true;
	}
	return l->offers != NULL;
}

static bool lane_may_end(const struct peer_lane *l)
{
	return l->peer->broker->forced || !lane_carries(l);
}

static void lane_end(struct peer_lane *l, const char *why)
{
	l->peer->shut = l->peer->broker->forced;
	if (lane_carries(l))
		mpib_warn("peer %s: %s, and the upgrade is forced: "
			  "connections end with their lane",
			  l->peer->label, why);
	peer_lane_renew(l);
	/* Were the peer's connects to begin anew, as they do where a lane is
	 * cancelled, their new lane would be in the way as well. */
	peer_lane_kill(l, l->offers ? -ECONNRESET : -ECANCELED, why);
}

static int lane_settled(struct peer_lane *l, char *why, size_t why_len)
{
	bool can = l->state == PEER_LANE_UP && mpib_lane_can_move(l->lane);

	if (!mpib_peer_quiescent(l->peer)) {
		snprintf(why, why_len,
			 "the link to %s is being made again (mpibctl upgrade "
			 "force ends its lanes)",
			 l->peer->label);
		return -EAGAIN;
	}
	if (can)
		return 0;
	if (l->state == PEER_LANE_UP && !lane_may_end(l)) {
		snprintf(why, why_len,
			 "connections to %s cannot be moved: they have no "
			 "fail-over between two rails (close them first, or "
			 "have mpibctl upgrade force end them)",
			 l->peer->label);
		return -EBUSY;
	}
	if (l->state == PEER_LANE_UP &&
	    (l->peer->broker->forced || TAILQ_EMPTY(&l->conns)))
		lane_end(l, "its proxy is upgraded, which a lane without "
			    "fail-over does not outlive");
	snprintf(why, why_len, "a lane to %s is on its way", l->peer->label);
	return -EAGAIN;
}

static void conn_why(const struct peer_conn *c, char *why, size_t why_len)
{
	uint32_t client = engine_client_id(c->client->engine_client);

	if (c->lane)
		snprintf(why, why_len,
			 "connection %u of client %u is being opened or "
			 "closed, for which peer %s does not answer (mpibctl "
			 "upgrade force ends its lane)",
			 c->index, client, c->lane->peer->label);
	else
		snprintf(why, why_len,
			 "connection %u of client %u is being opened or closed",
			 c->index, client);
}

int mpib_broker_quiescent(struct mpib_broker *b, char *why, size_t why_len)
{
	const struct mpib_listener_entry *a;
	struct peer_lane *l, *next;
	int again = 0, rc;

	for (a = b->listeners; a; a = a->hh.next) {
		if (!a->match.armed)
			continue;
		snprintf(why, why_len, "a connect is being accepted");
		again = -EAGAIN;
	}

	for (const struct peer_conn *c = b->conns; c; c = c->hh.next) {
		if (conn_settled(c))
			continue;
		conn_why(c, why, why_len);
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

/* Whether a connection is on its way: to its end, where only closes count. */
static bool lane_moves_conn(const struct peer_lane *l, bool closes)
{
	const struct peer_conn *c;

	TAILQ_FOREACH(c, &l->conns, lane_entry)
	{
		if (!conn_settled(c) && (!closes || c->state == PEER_CONN_OVER))
			return true;
	}
	return false;
}

/* Whether nothing of the lane is on its way, but for its rails. */
static bool lane_stands(const struct peer_lane *l)
{
	return l->state == PEER_LANE_UP && mpib_peer_quiescent(l->peer) &&
	       !lane_moves_conn(l, false);
}

/* A peer that opens lanes and closes them again and again has one on its way
 * whenever it is looked at. */
static void press_force(struct peer_lane *l, bool stands)
{
	if (l->peer->broker->forced && !stands)
		l->peer->shut = true;
}

/* Whether something waits for the peer that only the end of the lane ends. A close
 * is not taken back; a connect is, unless others pay for that. */
static bool lane_waits(const struct peer_lane *l)
{
	bool may_end = lane_may_end(l);

	return mpib_peer_quiescent(l->peer) ? lane_moves_conn(l, !may_end)
					    : may_end;
}

void mpib_broker_press(struct mpib_broker *b)
{
	struct peer_lane *l, *next;

	HASH_ITER(hh, b->lanes, l, next)
	{
		press_force(l, lane_stands(l));
		/* A lane that is not up carries nothing that could be handed
		 * over. */
		if (l->state == PEER_LANE_ASKED)
			peer_lane_kill(l, -ECANCELED, "its proxy is upgraded");
		else if (l->state == PEER_LANE_UP && lane_waits(l))
			lane_end(l, "its proxy is upgraded, and the peer did "
				    "not answer");
	}
}

/* What has begun since the rails were fenced ends only where all of it may. */
static bool fences_lane_done(const struct peer_lane *l, bool stands)
{
	return mpib_lane_left(l->lane) && mpib_peer_quiescent(l->peer) &&
	       (stands || !l->peer->broker->forced);
}

void mpib_broker_press_fences(struct mpib_broker *b, bool late)
{
	struct peer_lane *l, *next;

	HASH_ITER(hh, b->lanes, l, next)
	{
		bool stands = lane_stands(l);

		if (late)
			press_force(l, stands);
		if (l->state == PEER_LANE_UP && !fences_lane_done(l, stands) &&
		    (late ? lane_may_end(l) : !lane_carries(l)))
			lane_end(l, "its proxy is upgraded, and the peer did "
				    "not stop its end of the rails");
	}
}

void mpib_broker_fences_why(const struct mpib_broker *b, char *why,
			    size_t why_len)
{
	const struct peer_lane *l;

	snprintf(why, why_len, "lanes do not come to their end");
	for (l = b->lanes; l; l = l->hh.next) {
		if (l->state != PEER_LANE_UP || mpib_lane_left(l->lane))
			continue;
		snprintf(why, why_len,
			 "peer %s does not stop its end of the rails (mpibctl "
			 "upgrade force ends its lanes)",
			 l->peer->label);
		return;
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
		if (c->state == PEER_CONN_READY)
			peer_conn_want_hint(c);
	}
	for (l = b->lanes; l; l = l->hh.next)
		peer_lane_watch_idle(l);
	TAILQ_FOREACH(p, &b->peers, entry)
	{
		if (TAILQ_EMPTY(&p->lanes))
			continue;
		mpib_peer_await(p, b->silence_s);
		mpib_call_again(p, 0);
	}
	mpib_broker_hold(b, false);
	return rc;
}
