/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The accepting side of connections. This file matches the accepts of local
 * clients with the CONN_OPENs of peers, in order of arrival. If no accept is
 * waiting, a CONN_OPEN waits in the listener's backlog. Control thread.
 */
#include <errno.h>
#include <stdlib.h>

#include "peer/internal.h"

/* Queue the CONN_OPEN `w` until an accept is available. The caller must have
 * set w->lane and w->listener. */
static void accept_wait(struct mpib_pending_connect *w)
{
	w->lane->uses++;
	w->listener->waiting++;
	HASH_ADD(hh, w->lane->peer->broker->offers, name, sizeof(w->name), w);
	LIST_INSERT_HEAD(&w->lane->offers, w, lane_entry);
	TAILQ_INSERT_TAIL(&w->listener->backlog, w, entry);
}

static void pending_connect_drop(struct mpib_pending_connect *w)
{
	TAILQ_REMOVE(&w->listener->backlog, w, entry);
	HASH_DELETE(hh, w->lane->peer->broker->offers, w);
	LIST_REMOVE(w, lane_entry);
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
		mpib_accept_begin(c, w);
		pending_connect_drop(w);
	}
}

/* Match an accept with a CONN_OPEN only after this process has handled all
 * messages that peers have already sent. If this process was stopped, a peer
 * may meanwhile have cancelled its connect and ended the lane. An accept that
 * is matched with such a connect would fail, because the lane has ended. An
 * unmatched accept waits until the peer connects again. */
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
	const struct mpib_listener_name name = { m->nonce, uid };
	struct mpib_listener_entry *l;

	HASH_FIND(hh_name, b->listeners_by_name, &name, sizeof(name), l);
	*why = "this user no longer has this listener at the peer";
	if (!l)
		return mpib_broker_young(b) ? -EAGAIN : -ECONNREFUSED;
	*listener = l;
	return 0;
}

/* Find the lane that a CONN_OPEN names, and check that the client's connection
 * is allowed to use this lane. Return 0, or -errno with a reason in `why`. */
static int accept_lane_of(struct mpib_peer *p, const struct mpib_peer_msg *m,
			  const struct peer_client *client,
			  struct peer_lane **lane, const char **why)
{
	*lane = peer_lane_find(p, m->lane);
	*why = "the lane is gone";
	if (!*lane || (*lane)->state != PEER_LANE_UP)
		return p->broker->grace_ns ? -EAGAIN : -ECONNRESET;
	*why = "the lane belongs to another user or shard";
	if ((*lane)->key.uid != m->name.uid ||
	    peer_lane_shard(*lane) != client->shard)
		return -EACCES;
	*why = "the lane is private to another connection";
	if ((*lane)->key.serial && (*lane)->uses > 0)
		return -EBUSY;
	return 0;
}

static int accept_admit(struct mpib_peer *p, const struct mpib_peer_msg *m,
			struct mpib_listener_entry **listener,
			struct peer_lane **lane, const char **why)
{
	struct mpib_listener_entry *l;
	int rc = mpib_accept_proof(p->broker, m, m->name.uid, &l, why);

	if (rc < 0)
		return rc;
	rc = accept_lane_of(p, m, l->client, lane, why);
	if (rc < 0)
		return rc;
	*why = "too many connects wait for the listener's accepts";
	if (l->waiting >= MPIB_BACKLOG_MAX)
		return -EAGAIN;
	*listener = l;
	return 0;
}

static struct mpib_pending_connect *
offer_named(const struct mpib_broker *b, const struct mpib_conn_name *name)
{
	struct mpib_pending_connect *w;

	HASH_FIND(hh, b->offers, name, sizeof(*name), w);
	return w;
}

/* Send the CONN_ACCEPT again. If this end has sent a CONN_CLOSE and got no
 * answer, send the CONN_CLOSE again, too. */
static void accept_again(const struct peer_conn *c)
{
	if (c->end == PEER_END_DESTROYED)
		return;
	peer_conn_tell_tables(c, MPIB_PEER_CONN_ACCEPT);
	if (c->close_sent && !c->quiet)
		peer_conn_tell_end(c, MPIB_PEER_CONN_CLOSE);
}

/* Return whether this end has a lane and was created for the CONN_OPEN with the
 * id `from`. */
static bool accepted_from(const struct peer_conn *c, uint32_t from)
{
	return c->lane && c->their_id && c->their_id == from;
}

/* Handle the CONN_OPEN for a connection that this node's client accepted
 * earlier and has asked to resume. */
static int accept_resumed(struct mpib_peer *p, const struct mpib_peer_msg *m,
			  struct peer_conn *c, const char **why)
{
	struct mpib_pending_connect w = { .name = c->name,
					  .number = m->number,
					  .from = m->from,
					  .conn = m->conn };
	int rc = accept_lane_of(p, m, c->client, &w.lane, why);

	if (rc < 0)
		return rc;
	mpib_timer_disarm(p->broker->loop, &c->timer);
	mpib_accept_begin(c, &w);
	return 1;
}

/* Handle a CONN_OPEN from a peer that has created its end again. Such a peer no
 * longer has this end's lane, so this node's client must request the connection
 * again, too. */
static int accept_lose(struct peer_conn *c, const char **why)
{
	*why = "the other rank has not resumed the connection";
	if (c->state == PEER_CONN_READY)
		peer_lane_lose(c->lane, "the other end created a connection of "
					"this lane again");
	return c->state == PEER_CONN_LOST ? -EAGAIN : -ECONNRESET;
}

/* Check whether the connection of a CONN_OPEN is known already. Return 0 if the
 * CONN_OPEN is new, and 1 if this function has handled it. If the caller must
 * refuse the CONN_OPEN, return -errno with a reason in `why`. A repeated
 * CONN_OPEN never creates a second end. */
static int accept_known(struct mpib_peer *p, const struct mpib_peer_msg *m,
			const char **why)
{
	const struct mpib_conn_name name = mpib_other_end(&m->name);
	struct peer_conn *c = peer_conn_named(p->broker, &name);
	struct mpib_pending_connect *w = offer_named(p->broker, &name);

	*why = "the connection belongs to another node, or the sender's "
	       "mpib-proxy has changed its address (restart it with the old "
	       "address, or restart the job)";
	if ((c && c->peer != p) || (w && w->lane->peer != p))
		return -EACCES;
	if (c && (c->state == PEER_CONN_WAIT || c->state == PEER_CONN_LINK))
		return accept_resumed(p, m, c, why);
	/* The CONN_OPEN belongs to an earlier request for this connection and
	 * arrived late, so ignore it. */
	if (c && m->number < c->peer_number)
		return 1;
	if (c && p->broker->grace_ns &&
	    (c->state == PEER_CONN_LOST || !accepted_from(c, m->from)))
		return accept_lose(c, why);
	*why = "the receiving end is already connected by another request";
	if (c && (!accepted_from(c, m->from) || c->lane->id != m->lane ||
		  c->peer_number != m->number))
		return -ECONNRESET;
	if (c)
		accept_again(c);
	if (c || (w && w->from == m->from && w->lane->id == m->lane &&
		  w->number == m->number))
		return 1;
	/* The peer has created its end again, with new tables. So drop the old
	 * CONN_OPEN. */
	if (w)
		pending_connect_drop(w);
	return 0;
}

static int accept_offer(struct mpib_peer *p, const struct mpib_peer_msg *m,
			const char **why)
{
	struct mpib_pending_connect *w;
	struct mpib_listener_entry *l;
	struct peer_lane *lane;
	int rc = accept_known(p, m, why);

	if (rc != 0)
		return rc;
	/* If `met` is set, this connection has already used an accept, and must
	 * not use another accept. */
	*why = "the other end was closed";
	if (m->met)
		return mpib_broker_young(p->broker) ? -EAGAIN : -ECONNRESET;
	rc = accept_admit(p, m, &l, &lane, why);
	if (rc < 0)
		return rc;
	*why = "its proxy is out of memory";
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->lane = lane;
	w->listener = l;
	w->name = mpib_other_end(&m->name);
	w->number = m->number;
	w->from = m->from;
	w->conn = m->conn;
	accept_wait(w);
	accept_match(p->broker, l);
	return 0;
}

bool peer_conn_on_open(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	const struct peer_lane *lane = peer_lane_find(p, m->lane);
	const char *why;
	int rc;

	if (m->from == 0 || m->name.key == 0 || !m->name.sender)
		return false;
	/* If the lane is not up yet, ignore the CONN_OPEN. The peer sends the
	 * CONN_OPEN again after its LANE_ACCEPT for this lane. */
	if (lane && lane->state == PEER_LANE_ASKED)
		return true;
	rc = accept_offer(p, m, &why);
	if (rc < 0)
		mpib_peer_refuse(p, MPIB_PEER_CONN_REJECT, m->from, rc, why);
	return true;
}

bool peer_conn_on_cancel(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	const struct mpib_conn_name name = mpib_other_end(&m->name);
	const struct peer_conn *c = peer_conn_named(p->broker, &name);
	struct mpib_pending_connect *w = offer_named(p->broker, &name);

	if (c && c->peer == p && accepted_from(c, m->from)) {
		accept_again(c);
		return true;
	}
	mpib_peer_refuse(p, MPIB_PEER_CONN_REJECT, m->from, -ECANCELED,
			 "the connect was cancelled");
	if (w && w->lane->peer == p && w->from == m->from)
		pending_connect_drop(w);
	return true;
}

/* Walk the lane's list, not all listeners: there can be many listeners, and all
 * lanes of a lost peer end at the same time. */
void mpib_accept_lane_gone(struct peer_lane *lane)
{
	struct mpib_pending_connect *w;

	while ((w = LIST_FIRST(&lane->offers)))
		pending_connect_drop(w);
}

void mpib_accept_unlisten(struct mpib_broker *b, struct mpib_listener_entry *l)
{
	struct peer_conn *c;
	struct mpib_pending_connect *w;

	mpib_broker_del_listener(b, l);
	mpib_timer_disarm(b->loop, &l->match);
	while ((w = TAILQ_FIRST(&l->backlog))) {
		mpib_peer_refuse(w->lane->peer, MPIB_PEER_CONN_REJECT, w->from,
				 -ECONNREFUSED, "the listener is gone");
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
