/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection from the client's request to READY, seen from one of its ends;
 * conn_end.c is the rest of its life.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/handover/handover.h"
#include "peer/internal.h"

void mpib_bconn_set_state(struct mpib_bconn *c, enum mpib_conn_state state)
{
	/* Release pairs with the acquire in the client's mpib_ready(). */
	atomic_store_explicit(&c->owner->reply->conn[c->index].state,
			      (uint32_t)state, memory_order_release);
}

static bool index_free(const struct mpib_owner *owner, uint32_t index)
{
	return index < MPIB_CONNS_MAX && !owner->conn[index] && !owner->leaving;
}

int mpib_bconn_new(struct mpib_broker *b, struct mpib_owner *owner,
		   uint32_t index, bool sender, struct mpib_bconn **conn)
{
	struct mpib_bconn *c;

	if (!index_free(owner, index))
		return -EINVAL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->broker = b;
	c->owner = owner;
	c->index = index;
	c->sender = sender;
	c->since = mpib_loop_now(b->loop);
	c->id = mpib_broker_new_id(b);
	HASH_ADD(hh, b->conns, id, sizeof(c->id), c);
	owner->conn[index] = c;
	owner->conns++;
	mpib_bconn_set_state(c, MPIB_CONN_PENDING);
	*conn = c;
	return 0;
}

void mpib_bconn_set_peer(struct mpib_bconn *c, struct mpib_peer *p)
{
	if (c->peer)
		c->peer->conns--;
	c->peer = p;
	if (p)
		p->conns++;
}

static void on_late(void *arg)
{
	struct mpib_bconn *c = arg;
	uint64_t age = mpib_loop_now(c->broker->loop) - c->since;

	mpib_bconn_fail(c, -ETIMEDOUT,
			"peer %s: not connected within %llu s: %s",
			c->peer->label, (unsigned long long)(age / MPIB_SEC),
			mpib_bconn_trouble(c));
}

static uint64_t left_ns(const struct mpib_bconn *c)
{
	uint64_t now = mpib_loop_now(c->broker->loop);

	return now < c->until ? c->until - now : 0;
}

void mpib_bconn_begin(struct mpib_bconn *c)
{
	struct mpib_broker *b = c->broker;

	c->until = c->since + b->connect_ns;
	mpib_timer_arm(b->loop, &c->timer,
		       b->connect_ns < MPIB_REACH_NS ? b->connect_ns
						     : MPIB_REACH_NS,
		       on_late, c);
	if (c->peer->state == MPIB_PEER_UP) {
		mpib_bconn_linked(c);
		return;
	}
	c->state = MPIB_BCONN_LINK;
	TAILQ_INSERT_TAIL(&c->peer->waiting, c, entry);
	mpib_peer_want(c->peer);
}

int mpib_broker_connect(struct mpib_broker *b, struct mpib_owner *owner,
			uint32_t index, int traffic_class,
			const struct mpib_handle *handle)
{
	struct mpib_peer *p;
	struct mpib_bconn *c;
	int rc;

	if (handle->magic != MPIB_HANDLE_MAGIC || handle->port == 0 ||
	    handle->shard >= MPIB_SHARDS_MAX || !index_free(owner, index))
		return -EINVAL;
	p = mpib_peer_find(b, handle->addr, handle->port, false);
	if (!p)
		return -ENOMEM;
	rc = mpib_bconn_new(b, owner, index, true, &c);
	if (rc < 0)
		return rc;
	c->handle = *handle;
	if (traffic_class > 0 && traffic_class <= UINT8_MAX)
		c->traffic_class = (uint8_t)traffic_class;
	mpib_bconn_set_peer(c, p);
	mpib_bconn_begin(c);
	return 0;
}

void mpib_bconn_linked(struct mpib_bconn *c)
{
	int rc;

	c->state = MPIB_BCONN_NEW; /* on no list, should it fail here */
	if (c->handle.node != c->peer->node.boot) {
		mpib_bconn_fail(c, -ECONNREFUSED,
				"peer %s: its proxy was restarted since it "
				"listened",
				c->peer->label);
		return;
	}
	rc = mpib_blane_get(c);
	if (rc == -EPROTONOSUPPORT) {
		mpib_bconn_fail(c, rc,
				"no lane to peer %s: a device of this node "
				"failed or was removed, and the peer's "
				"mpib-proxy is too old to go without that rail "
				"(upgrade it)",
				c->peer->label);
		return;
	}
	if (rc < 0) {
		mpib_bconn_fail(c, rc, "no lane to peer %s: %s", c->peer->label,
				mpib_engine_trouble(c->broker->engine, rc));
		return;
	}
	if (c->lane->state == MPIB_BLANE_UP) {
		mpib_bconn_laned(c);
		return;
	}
	c->state = MPIB_BCONN_LANE;
	TAILQ_INSERT_TAIL(&c->lane->waiting, c, entry);
}

static int make_flow(struct mpib_bconn *c, struct mpib_flow_info *info)
{
	int rc = mpib_flow_create(c->owner->attachment, c->index, c->sender,
				  c->lane->lane, &c->flow);

	if (rc < 0) {
		c->flow = NULL;
		return rc;
	}
	HASH_ADD(hh_flow, c->broker->by_flow, flow, sizeof(c->flow), c);
	mpib_flow_local(c->flow, info);
	return 0;
}

void mpib_bconn_laned(struct mpib_bconn *c)
{
	struct mpib_peer_msg m = {
		.type = MPIB_PEER_CONN_OPEN,
		.from = c->id,
		.lane = c->lane->their_id,
		.listen_id = c->handle.listen_id,
		.nonce = c->handle.nonce,
		.uid = c->owner->uid,
	};
	int rc;

	c->state = MPIB_BCONN_OPEN;
	rc = make_flow(c, &m.flow);
	if (rc < 0) {
		mpib_bconn_fail(c, rc, "no tables for a connection: %s",
				mpib_engine_trouble(c->broker->engine, rc));
		return;
	}
	c->offered = true;
	mpib_blane_tell(c->lane, &m);
	mpib_timer_arm(c->broker->loop, &c->timer, left_ns(c), on_late, c);
}

/* Both ends register, as the agent would see them connect; only the sending end
 * splits by the hint. */
void mpib_bconn_want_hint(struct mpib_bconn *c)
{
	const struct mpib_agent_route route = {
		.sout_src = c->broker->self.sout,
		.sout_dst = c->peer->node.sout,
		.sup_src = c->lane->sup_src,
		.sup_dst = c->lane->sup_dst,
	};

	c->hint = mpib_agent_add(c->broker->agent, c->flow, &route);
}

/* A CONN_OPEN was matched with this accept. */
void mpib_accept_begin(struct mpib_bconn *c, const struct mpib_waiter *w)
{
	struct mpib_peer_msg m = {
		.type = MPIB_PEER_CONN_ACCEPT,
		.to = w->from,
		.from = c->id,
	};
	int rc;

	mpib_bconn_set_peer(c, w->peer);
	mpib_blane_join(w->lane, c);
	c->state = MPIB_BCONN_READY;
	rc = make_flow(c, &m.flow);
	if (rc < 0) {
		m.type = MPIB_PEER_CONN_REJECT;
		m.error = rc;
		snprintf(m.why, sizeof(m.why), "its proxy has no tables: %s",
			 mpib_engine_trouble(c->broker->engine, rc));
		mpib_blane_tell(c->lane, &m);
		mpib_bconn_fail(c, rc, "%s", m.why);
		return;
	}
	c->their_id = w->from;
	c->known = true;
	mpib_flow_start(c->flow, &w->flow);
	mpib_bconn_want_hint(c);
	mpib_blane_tell(c->lane, &m);
	mpib_bconn_set_state(c, MPIB_CONN_READY);
}

static void on_accepted(struct mpib_bconn *c, const struct mpib_peer_msg *m)
{
	c->offered = false;
	c->known = true;
	c->their_id = m->from;
	if (c->state != MPIB_BCONN_OPEN) {
		mpib_bconn_step(c); /* over meanwhile: tell them */
		return;
	}
	mpib_timer_disarm(c->broker->loop, &c->timer);
	c->recalled = false;
	c->state = MPIB_BCONN_READY;
	mpib_flow_start(c->flow, &m->flow);
	mpib_bconn_want_hint(c);
	mpib_bconn_set_state(c, MPIB_CONN_READY);
}

static void on_rejected(struct mpib_bconn *c, const struct mpib_peer_msg *m)
{
	c->offered = false;
	c->quiet = true; /* it never began to write */
	if (c->state == MPIB_BCONN_OVER)
		mpib_bconn_step(c);
	else if (c->recalled && m->error == -ECANCELED)
		mpib_bconn_recall(c);
	else
		mpib_bconn_fail(c, m->error, "peer %s: %s", c->peer->label,
				m->why);
}

static void on_close(struct mpib_bconn *c, const struct mpib_peer_msg *m)
{
	c->asked = true;
	if (c->state == MPIB_BCONN_OVER)
		mpib_bconn_step(c);
	else
		mpib_bconn_fail(c, -ECONNRESET, "peer %s: %s", c->peer->label,
				m->why);
}

static void on_closed(struct mpib_bconn *c)
{
	c->quiet = true;
	mpib_bconn_step(c);
}

bool mpib_bconn_message(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	struct mpib_bconn *c;
	bool sound = true;

	if (m->type == MPIB_PEER_CONN_OPEN)
		return mpib_accept_open(p, m);
	if (m->type == MPIB_PEER_CONN_CANCEL) {
		mpib_accept_cancel(p, m->to);
		return true;
	}
	HASH_FIND(hh, p->broker->conns, &m->to, sizeof(m->to), c);
	/* What is unknown went with its lane, and they are told of that. */
	if (!c || c->peer != p)
		return true;
	if (m->type == MPIB_PEER_CONN_ACCEPT && c->offered && m->from != 0)
		on_accepted(c, m);
	else if (m->type == MPIB_PEER_CONN_REJECT && c->offered)
		on_rejected(c, m);
	else if (m->type == MPIB_PEER_CONN_CLOSE && c->known && !c->asked)
		on_close(c, m);
	else if (m->type == MPIB_PEER_CONN_CLOSED && c->close_sent)
		on_closed(c);
	else if (m->type == MPIB_PEER_CONN_MOVED && c->known && c->flow)
		sound = mpib_flow_moved(c->flow, &m->flow);
	else
		sound = false;
	return sound;
}
