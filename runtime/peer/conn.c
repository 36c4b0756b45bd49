/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a connection, from the client's request to READY; conn_end.c has
 * the rest of its life. Control thread.
 */
#include <errno.h>
#include <mpib/wire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer/internal.h"

/* Pause before a receiving end asks the peer again whether its sender's end
 * comes. */
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
	peer_conn_set_state(c, MPIB_CONN_PENDING);
	*conn = c;
	return 0;
}

struct peer_conn *peer_conn_named(const struct mpib_broker *b,
				  const struct mpib_conn_name *name)
{
	struct peer_conn *c;

	HASH_FIND(hh_name, b->by_name, name, sizeof(*name), c);
	return c;
}

/* Set the name by which the peer finds the end from now on. */
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
			       "peer %s: not resumed within %llu s: %s "
			       "(resume.grace; is mpib-proxy up there, at this "
			       "address, and the job?)",
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

/* Return how long the connection may take to become READY. */
static uint64_t whole_ns(const struct peer_conn *c)
{
	const struct mpib_broker *b = c->broker;

	return c->number > 1 && b->grace_ns ? b->grace_ns : b->connect_ns;
}

static uint64_t left_ns(const struct peer_conn *c)
{
	uint64_t now = mpib_loop_now(c->broker->loop);

	return now < c->until ? c->until - now : 0;
}

void peer_conn_begin(struct peer_conn *c)
{
	struct mpib_broker *b = c->broker;
	uint64_t reach;

	c->until = c->since + whole_ns(c);
	reach = left_ns(c);
	if (c->number == 1 && reach > MPIB_REACH_NS)
		reach = MPIB_REACH_NS;
	mpib_timer_arm(b->loop, &c->timer, reach, conn_on_late, c);
	/* For itself this node calls through its other entry. */
	if (c->peer->state == MPIB_PEER_UP || c->peer->called) {
		peer_conn_linked(c);
		return;
	}
	c->state = PEER_CONN_LINK;
	TAILQ_INSERT_TAIL(&c->peer->waiting, c, entry);
	mpib_peer_want(c->peer);
}

/* Make the name available for another end of the client. -EEXIST: the
 * connection has an end that is not lost, or that was requested later. */
static int conn_free_name(struct mpib_broker *b,
			  const struct peer_client *client,
			  const struct mpib_conn_name *name, uint64_t number)
{
	struct peer_conn *c = peer_conn_named(b, name);

	if (!c)
		return 0;
	if (c->state != PEER_CONN_LOST || c->client != client || c->number >= number)
		return -EEXIST;
	HASH_DELETE(hh_name, b->by_name, c);
	c->name.key = 0;
	return 0;
}

int mpib_broker_connect(struct mpib_broker *b, struct peer_client *client,
			const struct mpib_ctl_connect *ask)
{
	const struct mpib_handle *handle = &ask->handle;
	const struct mpib_conn_name name = { ask->key, client->uid, true };
	struct mpib_peer *p;
	struct peer_conn *c;
	int rc;

	if (handle->magic != MPIB_HANDLE_MAGIC || handle->port == 0 ||
	    handle->shard >= MPIB_SHARDS_MAX ||
	    !index_free(client, ask->conn) || ask->key == 0 || ask->number == 0)
		return -EINVAL;
	rc = mpib_peer_for(b, client->uid, handle, &p);
	if (rc == 0)
		rc = conn_free_name(b, client, &name, ask->number);
	if (rc < 0)
		return rc;
	rc = peer_conn_new(b, client, ask->conn, true, &c);
	if (rc < 0)
		return rc;
	set_name(c, &name);
	c->number = ask->number;
	c->met = ask->peer_number;
	c->handle = *handle;
	if (ask->traffic_class > 0 && ask->traffic_class <= UINT8_MAX)
		c->traffic_class = (uint8_t)ask->traffic_class;
	peer_conn_set_peer(c, p);
	peer_conn_begin(c);
	return 0;
}

/* Find the node of the peer that made the connection. For this node itself,
 * this is its entry as the called end. */
static int conn_caller(struct mpib_broker *b, uid_t uid,
		       const struct mpib_ctl_resume *ask, struct mpib_peer **p)
{
	struct mpib_handle handle = { .port = ask->port };
	struct in6_addr addr;

	memcpy(&addr, ask->addr, sizeof(addr));
	memcpy(handle.addr6, ask->addr, sizeof(handle.addr6));
	memcpy(handle.second, ask->second, sizeof(handle.second));
	if (!mpib_address_same(&addr, &b->self.addr) ||
	    ask->port != b->self.port)
		return mpib_peer_for(b, uid, &handle, p);
	*p = mpib_peer_find(b, uid, &addr, ask->port, true);
	return *p ? 0 : -ENOSPC;
}

int mpib_broker_resume(struct mpib_broker *b, struct peer_client *client,
		       const struct mpib_ctl_resume *ask)
{
	const struct mpib_conn_name name = { ask->key, client->uid, false };
	struct mpib_peer *p;
	struct peer_conn *c;
	int rc;

	if (!index_free(client, ask->conn) || ask->key == 0 ||
	    ask->number < 2 || ask->port == 0)
		return -EINVAL;
	rc = conn_caller(b, client->uid, ask, &p);
	if (rc == 0)
		rc = conn_free_name(b, client, &name, ask->number);
	if (rc == 0)
		rc = peer_conn_new(b, client, ask->conn, false, &c);
	if (rc < 0)
		return rc;
	set_name(c, &name);
	c->number = ask->number;
	c->base = ask->base;
	peer_conn_set_peer(c, p);
	peer_conn_begin(c);
	return 0;
}

static void conn_on_wait(void *arg)
{
	struct peer_conn *c = arg;
	const struct mpib_peer_msg wait = {
		.type = MPIB_PEER_CONN_WAIT,
		.name = c->name,
	};
	uint64_t left = left_ns(c);

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
	c->state = PEER_CONN_NEW; /* on no list, in case the next step fails */
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
				    c->sender, MPIB_TABLE_SLOTS, c->lane->lane,
				    &c->conn);

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
	mpib_timer_arm(c->broker->loop, &c->timer, left_ns(c), conn_on_late, c);
}

/* Register the connection with the agent if this end sends: only a sending end
 * splits by the hint, and entries are few. */
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
	/* Release pairs with the acquire in mpib_conn_learn(): if the proxy is
	 * killed before this store, the rank uses none of the fields. */
	atomic_store_explicit(&end->key, c->name.key, memory_order_release);
}

/* CONN_OPEN w was matched with accept c. */
void mpib_accept_begin(struct peer_conn *c,
		       const struct mpib_pending_connect *w)
{
	char why[160];
	int rc;

	if (c->name.key == 0) {
		set_name(c, &w->name);
		peer_conn_set_peer(c, w->peer);
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

static void on_accepted(struct peer_conn *c, const struct mpib_peer_msg *m)
{
	c->offered = false;
	c->their_id = m->from;
	if (c->state != PEER_CONN_OPEN) {
		peer_conn_step(c); /* closed meanwhile: tell the peer */
		return;
	}
	mpib_timer_disarm(c->broker->loop, &c->timer);
	c->state = PEER_CONN_READY;
	c->peer_number = m->number;
	c->base = m->base;
	engine_conn_start(c->conn, &m->conn);
	conn_tell_rank(c);
	want_hint(c);
	peer_conn_set_state(c, MPIB_CONN_READY);
}

static void on_rejected(struct peer_conn *c, const struct mpib_peer_msg *m)
{
	c->offered = false;
	c->quiet = true; /* the peer never started to write */
	if (c->state >= PEER_CONN_OVER)
		peer_conn_step(c);
	else
		peer_conn_fail(c, m->error, "peer %s: %s", c->peer->label,
			       m->why);
}

struct mpib_conn_name mpib_other_end(const struct mpib_conn_name *name)
{
	return (struct mpib_conn_name){ name->key, name->uid, !name->sender };
}

/* Handle the peer's close. c is NULL if the connection no longer has an end
 * here. */
static void conn_on_close(struct mpib_peer *p, struct peer_conn *c,
			  const struct mpib_peer_msg *m)
{
	const struct mpib_peer_msg closed = {
		.type = MPIB_PEER_CONN_CLOSED,
		.name = mpib_other_end(&m->name),
	};

	if (!c || c->quiet)
		mpib_peer_tell(p, &closed);
	/* The peer may close before its CONN_ACCEPT is handled, and repeats the
	 * close then. */
	if (!c || !c->their_id)
		return;
	if (c->conn && c->end == PEER_END_RUNS)
		engine_conn_peer_ended(c->conn, m->ended);
	peer_conn_closed_there(c, m->why);
}

/* The peer's end waits for a sender's end here. */
static void conn_on_awaited(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	const struct mpib_peer_msg gone = {
		.type = MPIB_PEER_CONN_CLOSE,
		.name = mpib_other_end(&m->name),
		.error = -ECONNRESET,
		.why = "the other end was closed, or its process ended",
	};

	if (!peer_conn_named(p->broker, &gone.name) &&
	    !mpib_broker_young(p->broker))
		mpib_peer_tell(p, &gone);
}

static void conn_on_closed(struct peer_conn *c)
{
	c->quiet = true;
	peer_conn_step(c);
}

/* Find the end here that a message refers to, by the connection's name or by
 * id. A peer can only name its own ends. */
static struct peer_conn *conn_of_message(const struct mpib_peer *p,
					 const struct mpib_peer_msg *m)
{
	struct mpib_conn_name name = mpib_other_end(&m->name);
	struct peer_conn *c;

	if (m->type == MPIB_PEER_CONN_CLOSE || m->type == MPIB_PEER_CONN_CLOSED)
		c = peer_conn_named(p->broker, &name);
	else
		HASH_FIND(hh, p->broker->conns, &m->to, sizeof(m->to), c);
	return c && c->peer == p ? c : NULL;
}

/* The peer reports that its end is closed, or acknowledges that this one is. */
static void conn_end_message(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	struct peer_conn *c = conn_of_message(p, m);

	if (m->type == MPIB_PEER_CONN_CLOSE && m->to != 0)
		conn_on_close(p, c && m->to != c->id ? NULL : c, m);
	else if (m->type == MPIB_PEER_CONN_CLOSE && c)
		peer_conn_closed_there(c, m->why);
	else if (m->type == MPIB_PEER_CONN_CLOSED && c && c->close_sent)
		conn_on_closed(c);
}

bool peer_conn_message(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	struct peer_conn *c;
	bool sound = true;

	if (m->type == MPIB_PEER_CONN_OPEN)
		return mpib_accept_open(p, m);
	if (m->type == MPIB_PEER_CONN_CANCEL) {
		mpib_accept_cancel(p, m);
		return true;
	}
	if (m->type == MPIB_PEER_CONN_WAIT) {
		conn_on_awaited(p, m);
		return true;
	}
	if (m->type == MPIB_PEER_CONN_CLOSE ||
	    m->type == MPIB_PEER_CONN_CLOSED) {
		conn_end_message(p, m);
		return true;
	}
	c = conn_of_message(p, m);
	/* A connection unknown here was closed, or went away with its lane, and
	 * the peer is told so. */
	if (!c)
		return true;
	if (m->type == MPIB_PEER_CONN_ACCEPT && c->offered && m->from != 0)
		on_accepted(c, m);
	else if (m->type == MPIB_PEER_CONN_ACCEPT)
		sound = m->from != 0 && c->their_id == m->from;
	else if (m->type == MPIB_PEER_CONN_REJECT && c->offered)
		on_rejected(c, m);
	else if (m->type == MPIB_PEER_CONN_REJECT)
		sound = c->sender; /* repeated */
	else
		sound = false;
	return sound;
}
