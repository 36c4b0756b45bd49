/* SPDX-License-Identifier: Apache-2.0 */
/* One end of a connection, from its request until it is READY, and the messages
 * about it. Control thread. */
#include <errno.h>
#include <mpib/wire.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "peer/internal.h"

/* Pause between two CONN_WAITs of a receiver that waits for its sender. */
#define WAIT_NS MPIB_SEC

void peer_conn_set_state(struct peer_conn *c, enum mpib_conn_state state)
{
	/* Release pairs with the acquire in the client's mpib_ready(). */
	atomic_store_explicit(&c->client->reply->conn[c->index].state,
			      (uint32_t)state, memory_order_release);
}

static bool index_free(const struct peer_client *client, uint32_t index)
{
	return index < MPIB_INDEXES_MAX && !client->conn[index] &&
	       !client->leaving;
}

int peer_conn_new(struct mpib_broker *b, struct peer_client *client,
		  uint32_t index, bool sender, struct peer_conn **conn)
{
	struct peer_conn *c;

	if (!index_free(client, index))
		return -EINVAL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->broker = b;
	c->client = client;
	c->index = index;
	c->sender = sender;
	c->since = mpib_loop_now(b->loop);
	c->id = mpib_broker_new_id(b);
	HASH_ADD(hh, b->conns, id, sizeof(c->id), c);
	client->conn[index] = c;
	client->conns++;
	client->quota_conns++;
	peer_conn_set_state(c, MPIB_CONN_PENDING);
	*conn = c;
	return 0;
}

void peer_conn_unlist(struct peer_conn *c)
{
	if (c->state == PEER_CONN_LINK)
		TAILQ_REMOVE(&c->peer->waiting, c, entry);
	else if (c->state == PEER_CONN_LANE)
		TAILQ_REMOVE(&c->lane->waiting, c, entry);
	else if (c->state == PEER_CONN_ACCEPT)
		TAILQ_REMOVE(&c->listener->accepts, c, entry);
	c->listener = NULL;
}

/* Set the name by which the peer finds this end from now on. */
static void set_name(struct peer_conn *c, const struct mpib_conn_name *name)
{
	c->name = *name;
	HASH_ADD(hh_name, c->broker->by_name, name, sizeof(c->name), c);
}

void peer_conn_set_peer(struct peer_conn *c, struct mpib_peer *p)
{
	if (c->peer)
		mpib_sum_less(&c->peer->conns);
	c->peer = p;
	if (p)
		p->conns++;
}

static void conn_on_late(void *arg)
{
	struct peer_conn *c = arg;
	uint64_t age = mpib_loop_now(c->broker->loop) - c->since;

	if (c->number > 1)
		peer_conn_fail(c, -ETIMEDOUT,
			       "peer %s: the connection was not resumed "
			       "within %llu s: %s "
			       "(check that mpib-proxy runs at this address, "
			       "and the job on that node; resume.grace)",
			       c->peer->label,
			       (unsigned long long)(age / MPIB_SEC),
			       peer_conn_last_error(c));
	else
		peer_conn_fail(c, -ETIMEDOUT,
			       "peer %s: not connected within %llu s: %s",
			       c->peer->label,
			       (unsigned long long)(age / MPIB_SEC),
			       peer_conn_last_error(c));
}

/* Return the time limit for the connection to become READY. */
static uint64_t whole_ns(const struct peer_conn *c)
{
	const struct mpib_broker *b = c->broker;

	return c->number > 1 && b->grace_ns ? b->grace_ns : b->connect_ns;
}

uint64_t peer_conn_left_ns(const struct peer_conn *c)
{
	uint64_t now = mpib_loop_now(c->broker->loop);

	return now < c->until ? c->until - now : 0;
}

void peer_conn_begin(struct peer_conn *c)
{
	struct mpib_broker *b = c->broker;
	uint64_t reach;

	c->until = c->since + whole_ns(c);
	reach = peer_conn_left_ns(c);
	if (c->number == 1 && reach > MPIB_REACH_NS)
		reach = MPIB_REACH_NS;
	mpib_timer_arm(b->loop, &c->timer, reach, conn_on_late, c);
	/* If this node calls itself, the entry of the called end does not wait
	 * for the link, because the entry of the calling end makes the link. */
	if (c->peer->state == MPIB_PEER_UP || c->peer->called) {
		peer_conn_linked(c);
		return;
	}
	c->state = PEER_CONN_LINK;
	TAILQ_INSERT_TAIL(&c->peer->waiting, c, entry);
	mpib_peer_want(c->peer);
}

/* Free the name for the client's new end: take it from an end of the same
 * client that is lost and whose number is below `number`, and return this end
 * in *old. Return -EEXIST if any other end has the name. */
static int conn_free_name(struct mpib_broker *b,
			  const struct peer_client *client,
			  const struct mpib_conn_name *name, uint64_t number,
			  struct peer_conn **old)
{
	struct peer_conn *c = *old = peer_conn_named(b, name);

	if (!c)
		return 0;
	if (c->state != PEER_CONN_LOST || c->client != client ||
	    c->number >= number)
		return -EEXIST;
	HASH_DELETE(hh_name, b->by_name, c);
	c->name.key = 0;
	return 0;
}

/* Begin the client's new end `c`. `old` is the lost end, NULL if there was
 * none. */
static void conn_begin_after(struct peer_conn *c, const struct peer_conn *old)
{
	if (old && peer_conn_is_same_loss(old)) {
		c->since = old->since;
		mpib_peer_text(c->why, sizeof(c->why), old->why);
	}
	peer_conn_begin(c);
}

/* Find the entry of the node on which the sender runs. If that is this node,
 * return the entry of the called end, see struct mpib_peer. */
static int conn_caller(struct mpib_broker *b, uid_t uid,
		       const struct mpib_handle *handle, struct mpib_peer **p)
{
	struct in6_addr addr;

	memcpy(&addr, handle->addr6, sizeof(addr));
	if (!mpib_address_same(&addr, &b->self.addr) ||
	    handle->port != b->self.port)
		return mpib_peer_for(b, uid, handle, p);
	*p = mpib_peer_find(b, uid, &addr, handle->port, true);
	return *p ? 0 : -ENOSPC;
}

int mpib_broker_connect(struct mpib_broker *b, struct peer_client *client,
			const struct mpib_ctl_connect *ask, bool sender)
{
	const struct mpib_handle *handle = &ask->handle;
	const struct mpib_conn_name name = { ask->key, client->uid, sender };
	struct peer_conn *c, *old = NULL;
	struct mpib_peer *p;
	int rc;

	if (handle->magic != MPIB_HANDLE_MAGIC || handle->port == 0 ||
	    handle->shard >= MPIB_SHARDS_MAX ||
	    !index_free(client, ask->conn) || ask->key == 0 ||
	    ask->number < (sender ? 1 : 2))
		return -EINVAL;
	rc = sender ? mpib_peer_for(b, client->uid, handle, &p)
		    : conn_caller(b, client->uid, handle, &p);
	if (rc == 0)
		rc = conn_free_name(b, client, &name, ask->number, &old);
	if (rc == 0)
		rc = peer_conn_new(b, client, ask->conn, sender, &c);
	if (rc < 0)
		return rc;
	set_name(c, &name);
	c->number = ask->number;
	if (sender) {
		c->met = ask->peer_number;
		c->handle = *handle;
		if (ask->traffic_class > 0 && ask->traffic_class <= UINT8_MAX)
			c->traffic_class = (uint8_t)ask->traffic_class;
	} else {
		c->base = ask->base;
	}
	peer_conn_set_peer(c, p);
	conn_begin_after(c, old);
	return 0;
}

static void conn_on_wait(void *arg)
{
	struct peer_conn *c = arg;
	const struct mpib_peer_msg wait = {
		.type = MPIB_PEER_CONN_WAIT,
		.name = c->name,
	};
	uint64_t left = peer_conn_left_ns(c);

	if (left == 0) {
		conn_on_late(c);
		return;
	}
	if (c->peer->state != MPIB_PEER_UP && !c->peer->called) {
		peer_conn_begin(c);
		return;
	}
	mpib_peer_tell(c->peer, &wait);
	mpib_timer_arm(c->broker->loop, &c->timer,
		       left < WAIT_NS ? left : WAIT_NS, conn_on_wait, c);
}

void peer_conn_linked(struct peer_conn *c)
{
	char why[160];
	int rc;

	if (!c->sender) {
		c->state = PEER_CONN_WAIT;
		conn_on_wait(c);
		return;
	}
	/* the connection is on no list now: tell peer_conn_fail() */
	c->state = PEER_CONN_NEW;
	rc = peer_lane_get(c, why, sizeof(why));
	if (rc < 0) {
		peer_conn_fail(c, rc, "no lane to peer %s: %s", c->peer->label,
			       why);
		return;
	}
	if (c->lane->state == PEER_LANE_UP) {
		peer_conn_laned(c);
		return;
	}
	c->state = PEER_CONN_LANE;
	TAILQ_INSERT_TAIL(&c->lane->waiting, c, entry);
}

static int conn_make_conn(struct peer_conn *c)
{
	int rc = engine_conn_create(c->client->engine_client, c->index,
				    c->sender, c->lane->lane, &c->conn);

	if (rc < 0) {
		c->conn = NULL;
		return rc;
	}
	if (c->number > 1)
		engine_conn_goes_on(c->conn);
	HASH_ADD(hh_engine, c->broker->by_engine, conn, sizeof(c->conn), c);
	return 0;
}

void peer_conn_tell_tables(const struct peer_conn *c, enum mpib_peer_type type)
{
	struct mpib_peer_msg m = {
		.type = type,
		.name = c->name,
		.number = c->number,
		.met = c->met,
		.to = c->their_id,
		.from = c->id,
		.lane = c->lane->their_id,
		.nonce = c->handle.nonce,
		.base = c->base,
	};

	engine_conn_local(c->conn, &m.conn);
	if (type == MPIB_PEER_CONN_ACCEPT)
		peer_lane_answer(c->lane, &m);
	else
		peer_lane_tell(c->lane, &m);
}

void peer_conn_laned(struct peer_conn *c)
{
	int rc;

	c->state = PEER_CONN_OPEN;
	rc = conn_make_conn(c);
	if (rc < 0) {
		peer_conn_fail(c, rc, "no tables for a connection: %s",
			       mpib_engine_last_error(c->broker->engine, rc));
		return;
	}
	c->offered = true;
	peer_conn_tell_tables(c, MPIB_PEER_CONN_OPEN);
	mpib_timer_arm(c->broker->loop, &c->timer, peer_conn_left_ns(c),
		       conn_on_late, c);
}

/* Register a sender with the agent. Do not register a receiver: it does not
 * split messages, and would use one of the agent's 4096 entries. */
static void want_hint(struct peer_conn *c)
{
	const struct mpib_agent_route route = {
		.sout_src = c->broker->self.sout,
		.sout_dst = c->peer->node.sout,
		.sup_src = c->lane->sup_src,
		.sup_dst = c->lane->sup_dst,
	};

	if (c->sender)
		c->hint = mpib_agent_add(c->broker->agent, c->conn, &route);
}

static void conn_tell_rank(const struct peer_conn *c)
{
	struct mpib_reply_end *end = &c->client->reply->end[c->index];

	end->number = c->number;
	end->peer_number = c->peer_number;
	end->base = c->base;
	end->port = c->peer->node.port;
	memcpy(end->addr, &c->peer->node.addr, sizeof(end->addr));
	memcpy(end->second, &c->peer->node.second, sizeof(end->second));
	/* Release pairs with the acquire in mpib_conn_learn(). If the proxy is
	 * killed before this store, the rank ignores all the fields. */
	atomic_store_explicit(&end->key, c->name.key, memory_order_release);
}

/* Start the accepted connection `c`, which matches the CONN_OPEN `w`. */
void mpib_accept_begin(struct peer_conn *c,
		       const struct mpib_pending_connect *w)
{
	char why[160];
	int rc;

	if (c->name.key == 0) {
		set_name(c, &w->name);
		peer_conn_set_peer(c, w->lane->peer);
		c->number = 1;
	}
	c->peer_number = w->number;
	peer_conn_unlist(c);
	peer_lane_join(w->lane, c);
	c->state = PEER_CONN_READY;
	rc = conn_make_conn(c);
	if (rc < 0) {
		snprintf(why, sizeof(why), "its proxy has no tables: %s",
			 mpib_engine_last_error(c->broker->engine, rc));
		mpib_peer_refuse(c->peer, MPIB_PEER_CONN_REJECT, w->from, rc,
				 why);
		peer_conn_fail(c, rc, "%s", why);
		return;
	}
	c->their_id = w->from;
	engine_conn_start(c->conn, &w->conn);
	conn_tell_rank(c);
	peer_conn_tell_tables(c, MPIB_PEER_CONN_ACCEPT);
	peer_conn_set_state(c, MPIB_CONN_READY);
}

/* Return this node's end of the connection, found by its id. NULL: this end was
 * closed, or was lost with its lane. */
static struct peer_conn *conn_by_id(const struct mpib_peer *p, uint32_t id)
{
	struct peer_conn *c;

	HASH_FIND(hh, p->broker->conns, &id, sizeof(id), c);
	return c && c->peer == p ? c : NULL;
}

bool peer_conn_on_accept(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	struct peer_conn *c = conn_by_id(p, m->to);

	if (!c)
		return true;
	if (!c->offered || m->from == 0)
		/* a correct peer may only repeat its CONN_ACCEPT */
		return m->from && c->their_id == m->from;
	c->offered = false;
	c->their_id = m->from;
	if (c->state != PEER_CONN_OPEN) {
		/* the client has closed the connection after the CONN_OPEN was
		 * sent: tell the peer */
		peer_conn_step(c);
		return true;
	}
	mpib_timer_disarm(c->broker->loop, &c->timer);
	c->state = PEER_CONN_READY;
	c->peer_number = m->number;
	c->base = m->base;
	engine_conn_start(c->conn, &m->conn);
	conn_tell_rank(c);
	want_hint(c);
	peer_conn_set_state(c, MPIB_CONN_READY);
	return true;
}

bool peer_conn_on_reject(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	struct peer_conn *c = conn_by_id(p, m->to);

	if (!c || !c->offered)
		return !c || c->sender; /* a repeated CONN_REJECT */
	c->offered = false;
	c->quiet = true; /* the peer never started to write */
	if (c->state >= PEER_CONN_OVER)
		peer_conn_step(c);
	else
		peer_conn_fail(c, m->error, "peer %s: %s", p->label, m->why);
	return true;
}

struct mpib_conn_name mpib_other_end(const struct mpib_conn_name *name)
{
	return (struct mpib_conn_name){ name->key, name->uid, !name->sender };
}

/* Return this node's end of the message's connection, found by its name. */
static struct peer_conn *conn_by_name(const struct mpib_peer *p,
				      const struct mpib_peer_msg *m)
{
	const struct mpib_conn_name name = mpib_other_end(&m->name);
	struct peer_conn *c = peer_conn_named(p->broker, &name);

	return c && c->peer == p ? c : NULL;
}

bool peer_conn_on_close(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	const struct mpib_peer_msg closed = {
		.type = MPIB_PEER_CONN_CLOSED,
		.name = mpib_other_end(&m->name),
	};
	struct peer_conn *c = conn_by_name(p, m);

	if (m->to == 0) {
		if (c)
			peer_conn_closed_there(c, m->why);
		return true;
	}
	if (c && c->id != m->to)
		c = NULL;
	if (!c || c->quiet)
		mpib_peer_tell(p, &closed);
	/* Before the peer's CONN_ACCEPT has arrived, ignore the CONN_CLOSE: the
	 * peer repeats the CONN_CLOSE after the CONN_ACCEPT. */
	if (!c || !c->their_id)
		return true;
	if (c->conn && c->end == PEER_END_RUNS)
		engine_conn_peer_ended(c->conn, m->ended);
	peer_conn_closed_there(c, m->why);
	return true;
}

/* The peer's receiving end is ready, so end the pause before the next connect.
 * Do this only once for each end, so that a peer cannot make this proxy connect
 * without pauses. */
static void conn_hurry(struct peer_conn *c)
{
	bool paused = c->state == PEER_CONN_NEW;

	if (c->hurried || (!paused && c->state != PEER_CONN_AGAIN))
		return;
	c->hurried = true;
	if (paused)
		peer_conn_begin(c);
	else
		c->error = -ECANCELED; /* no pause, see conn_end_renew() */
}

bool peer_conn_on_closed(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	struct peer_conn *c = conn_by_name(p, m);

	if (c && c->close_sent) {
		c->quiet = true;
		peer_conn_step(c);
	}
	return true;
}

/* The peer's receiving end waits for the sending end on this node. If this node
 * will have no sending end, tell the peer. */
bool peer_conn_on_wait(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	const struct mpib_peer_msg gone = {
		.type = MPIB_PEER_CONN_CLOSE,
		.name = mpib_other_end(&m->name),
		.error = -ECONNRESET,
		.why = "the other end failed or was closed, or its process "
		       "ended (its rank's error says why)",
	};
	struct peer_conn *c = peer_conn_named(p->broker, &gone.name);

	if (c && c->peer == p)
		conn_hurry(c);
	if (c ? c->state == PEER_CONN_OVER && c->error
	      : !mpib_broker_young(p->broker))
		mpib_peer_tell(p, &gone);
	return true;
}
