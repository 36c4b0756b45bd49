/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listening side of connections. Accepts of local clients are matched with
 * CONN_OPENs from peers, first come first served; a CONN_OPEN that comes before
 * any accept waits in the listener's backlog. Control thread.
 */
#include <errno.h>
#include <stdlib.h>

#include "peer/internal.h"

void mpib_accept_wait(struct mpib_pending_connect *w)
{
	w->lane->uses++;
	w->listener->waiting++;
	HASH_ADD(hh, w->lane->offers, from, sizeof(w->from), w);
	TAILQ_INSERT_TAIL(&w->listener->backlog, w, entry);
}

static void pending_connect_drop(struct mpib_pending_connect *w)
{
	TAILQ_REMOVE(&w->listener->backlog, w, entry);
	HASH_DELETE(hh, w->lane->offers, w);
	mpib_sum_less(&w->listener->waiting);
	peer_lane_put(w->lane);
	free(w);
}

/* Match the oldest waiting accepts with the oldest waiting CONN_OPENs. */
static void accept_on_match(void *arg)
{
	struct mpib_listener_entry *l = arg;
	struct mpib_pending_connect *w;
	struct peer_conn *c;

	while ((c = TAILQ_FIRST(&l->accepts)) &&
	       (w = TAILQ_FIRST(&l->backlog))) {
		TAILQ_REMOVE(&l->accepts, c, entry);
		c->listener = NULL;
		mpib_accept_begin(c, w);
		pending_connect_drop(w);
	}
}

/* Once what peers have said by now is heard: where this process stood still, one
 * may have called its connect off, and ended the lane. What is accepted by then
 * ends with that; what is not, waits for the peer to ask again. */
static void accept_match(struct mpib_broker *b, struct mpib_listener_entry *l)
{
	if (!l->match.armed && !TAILQ_EMPTY(&l->accepts) &&
	    !TAILQ_EMPTY(&l->backlog))
		mpib_timer_arm(b->loop, &l->match, 0, accept_on_match, l);
}

int mpib_accept_proof(const struct mpib_broker *b,
		      const struct mpib_peer_msg *m, uint32_t uid,
		      struct mpib_listener_entry **listener, const char **why)
{
	struct mpib_listener_entry *l;

	HASH_FIND(hh, b->listeners, &m->listen_id, sizeof(m->listen_id), l);
	*why = "nobody listens there any more";
	if (!l)
		return -ECONNREFUSED;
	*why = "the handle is not the listener's";
	if (l->nonce != m->nonce)
		return -ECONNREFUSED;
	*why = "the listener belongs to another user";
	if (l->client->uid != uid)
		return -EACCES;
	*listener = l;
	return 0;
}

static int accept_admit(struct mpib_peer *p, const struct mpib_peer_msg *m,
			struct mpib_listener_entry **listener,
			struct peer_lane **lane, const char **why)
{
	struct mpib_listener_entry *l;
	int rc = mpib_accept_proof(p->broker, m, m->uid, &l, why);

	if (rc < 0)
		return rc;
	*lane = peer_lane_find(p, m->lane);
	*why = "the lane is gone";
	if (!*lane || (*lane)->state != PEER_LANE_UP)
		return -ECONNRESET;
	*why = "the lane leads to somebody else";
	if ((*lane)->key.uid != m->uid ||
	    peer_lane_shard(*lane) != l->client->shard)
		return -EACCES;
	*why = "the lane is private to another connection";
	if ((*lane)->key.serial && (*lane)->uses > 0)
		return -EBUSY;
	*why = "too many connects wait for the listener's accepts";
	if (l->waiting >= MPIB_BACKLOG_MAX)
		return -EAGAIN;
	*listener = l;
	return 0;
}

static struct mpib_pending_connect *offer_of(const struct peer_lane *l,
					     uint32_t from)
{
	struct mpib_pending_connect *w;

	HASH_FIND(hh, l->offers, &from, sizeof(from), w);
	return w;
}

/* Tell the peer again that its CONN_OPEN was accepted, and that the connection
 * closes if it does. False: it was not accepted. */
static bool accept_again(struct peer_lane *l, uint32_t from)
{
	const struct peer_conn *c;

	HASH_FIND(hh_accepted, l->accepted, &from, sizeof(from), c);
	if (!c)
		return false;
	if (c->destroying)
		return true;
	peer_conn_tell_tables(c, MPIB_PEER_CONN_ACCEPT);
	if (c->close_sent && !c->quiet)
		peer_conn_tell_end(c, MPIB_PEER_CONN_CLOSE);
	return true;
}

bool mpib_accept_open(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	struct mpib_listener_entry *l;
	struct peer_lane *lane = peer_lane_find(p, m->lane);
	struct mpib_pending_connect *w;
	const char *why;
	int rc;

	if (m->from == 0)
		return false;
	/* The peer sends it again with the LANE_ACCEPT. */
	if (lane && lane->state == PEER_LANE_ASKED)
		return true;
	/* One CONN_OPEN has one end here, however often it comes. */
	if (lane && (offer_of(lane, m->from) || accept_again(lane, m->from)))
		return true;
	rc = accept_admit(p, m, &l, &lane, &why);
	w = rc == 0 ? calloc(1, sizeof(*w)) : NULL;
	if (!w) {
		mpib_peer_refuse(p, MPIB_PEER_CONN_REJECT, m->from,
				 rc < 0 ? rc : -ENOMEM,
				 rc < 0 ? why : "its proxy is out of memory");
		return true;
	}
	w->peer = p;
	w->lane = lane;
	w->listener = l;
	w->from = m->from;
	w->conn = m->conn;
	mpib_accept_wait(w);
	accept_match(p->broker, l);
	return true;
}

void mpib_accept_cancel(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	struct peer_lane *l = peer_lane_find(p, m->lane);
	struct mpib_pending_connect *w;

	if (l && accept_again(l, m->to))
		return;
	w = l ? offer_of(l, m->to) : NULL;
	mpib_peer_refuse(p, MPIB_PEER_CONN_REJECT, m->to, -ECANCELED,
			 "it was called off");
	if (w)
		pending_connect_drop(w);
}

/* By the lane's own list: a peer that is lost ends all its lanes at once, and
 * there may be many listeners. */
void mpib_accept_lane_gone(struct peer_lane *lane)
{
	struct mpib_pending_connect *w;

	while ((w = lane->offers))
		pending_connect_drop(w);
}

void mpib_accept_unlisten(struct mpib_broker *b, struct mpib_listener_entry *l)
{
	struct peer_conn *c;
	struct mpib_pending_connect *w;

	HASH_DELETE(hh, b->listeners, l);
	mpib_timer_disarm(b->loop, &l->match);
	while ((w = TAILQ_FIRST(&l->backlog))) {
		mpib_peer_refuse(w->peer, MPIB_PEER_CONN_REJECT, w->from,
				 -ECONNREFUSED,
				 "nobody listens there any more");
		pending_connect_drop(w);
	}
	while ((c = TAILQ_FIRST(&l->accepts)))
		peer_conn_fail(c, -ECANCELED, "the listener was closed");
	free(l);
}

int mpib_broker_accept(struct mpib_broker *b, struct peer_client *client,
		       uint32_t listen_id, uint32_t index)
{
	struct mpib_listener_entry *l;
	struct peer_conn *c;
	int rc;

	HASH_FIND(hh, b->listeners, &listen_id, sizeof(listen_id), l);
	if (!l || l->client != client)
		return -ENOENT;
	rc = peer_conn_new(b, client, index, false, &c);
	if (rc < 0)
		return rc;
	c->state = PEER_CONN_ACCEPT;
	c->listener = l;
	TAILQ_INSERT_TAIL(&l->accepts, c, entry);
	accept_match(b, l);
	return 0;
}
