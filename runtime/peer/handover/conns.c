/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hand-over of listeners and connections. Each function both packs and
 * unpacks, as base/serial.h says. Control thread.
 */
#include <stdlib.h>

#include "engine/handover/handover.h"
#include "peer/handover/serialize.h"

static void conns_client(struct mpib_broker_serialize *x,
			 struct peer_client **o)
{
	uint32_t id = x->p->packing ? engine_client_id((*o)->engine_client) : 0;

	mpib_serial_u32(x->p, &id);
	if (!x->p->packing)
		*o = x->p->failed ? NULL : x->client(x->arg, id);
	if (!*o)
		mpib_serial_fail(x->p, "there is no client %u", id);
}

/* A lane by its id, 0 for none. */
static void conns_lane_of(struct mpib_broker_serialize *x,
			  struct peer_lane **lane)
{
	uint32_t id = x->p->packing && *lane ? (*lane)->id : 0;

	mpib_serial_u32(x->p, &id);
	if (!x->p->packing)
		HASH_FIND(hh, x->b->lanes, &id, sizeof(id), *lane);
	if (!*lane && id)
		mpib_serial_fail(x->p, "there is no lane %u", id);
}

static void pending_connect(struct mpib_broker_serialize *x,
			    struct mpib_listener_entry *l,
			    struct mpib_pending_connect *w)
{
	struct mpib_serial *p = x->p;

	if (!p->packing) {
		w = calloc(1, sizeof(*w));
		if (!w) {
			mpib_serial_fail(p, "no memory for a connect");
			return;
		}
	}
	conns_lane_of(x, &w->lane);
	mpib_serial_u32(p, &w->from);
	mpib_serial_u32(p, &w->conn.id);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		mpib_serial_u32(p, &w->conn.rkey[r]);
	mpib_serial_u64(p, &w->conn.addr);
	if (p->packing)
		return;
	if (!w->lane || p->failed) {
		mpib_serial_fail(p, "a connect without a lane");
		free(w);
		return;
	}
	w->peer = w->lane->peer;
	w->listener = l;
	mpib_accept_wait(w);
}

static void conns_listener(struct mpib_broker_serialize *x,
			   struct mpib_listener_entry *l)
{
	struct mpib_serial *p = x->p;
	uint32_t waiting;
	struct mpib_pending_connect *w;

	if (!p->packing) {
		l = calloc(1, sizeof(*l));
		if (!l) {
			mpib_serial_fail(p, "no memory for a listener");
			return;
		}
		TAILQ_INIT(&l->accepts);
		TAILQ_INIT(&l->backlog);
	}
	mpib_serial_mark(p, "listen");
	mpib_serial_u32(p, &l->id);
	mpib_serial_u64(p, &l->nonce);
	conns_client(x, &l->client);
	if (!p->packing)
		HASH_ADD(hh, x->b->listeners, id, sizeof(l->id), l);
	waiting = l->waiting;
	mpib_serial_count(p, &waiting, MPIB_BACKLOG_MAX);
	w = TAILQ_FIRST(&l->backlog);
	while (waiting-- > 0 && !p->failed) {
		pending_connect(x, l, p->packing ? w : NULL);
		w = p->packing ? TAILQ_NEXT(w, entry) : NULL;
	}
}

void mpib_serial_listeners(struct mpib_broker_serialize *x)
{
	struct mpib_listener_entry *l = x->b->listeners;
	uint32_t n = HASH_COUNT(l);

	mpib_serial_count(x->p, &n, MPIB_LISTENERS_MAX);
	while (n-- > 0 && !x->p->failed) {
		conns_listener(x, l);
		l = x->p->packing ? l->hh.next : NULL;
	}
}

static void conns_accepting(struct mpib_broker_serialize *x,
			    struct peer_conn *c)
{
	struct mpib_listener_entry *l = c->listener;
	uint32_t id = l ? l->id : 0;

	mpib_serial_u32(x->p, &id);
	if (x->p->packing)
		return;
	HASH_FIND(hh, x->b->listeners, &id, sizeof(id), l);
	if (!l) {
		mpib_serial_fail(x->p, "there is no listener %u", id);
		c->state = PEER_CONN_OVER;
		return;
	}
	c->listener = l;
	TAILQ_INSERT_TAIL(&l->accepts, c, entry);
}

static void conns_ready(struct mpib_broker_serialize *x, struct peer_conn *c)
{
	struct mpib_serial *p = x->p;
	struct peer_lane *l = c->lane;

	mpib_serial_u32(p, &c->their_id);
	conns_lane_of(x, &l);
	if (!l || p->failed)
		return;
	if (!p->packing) {
		peer_conn_set_peer(c, l->peer);
		peer_lane_join(l, c);
		peer_conn_set_their_id(c, c->their_id);
	}
	engine_conn_serialize(p, &c->conn, c->client->engine_client, c->index,
			      c->sender, l->lane);
	if (!p->packing && c->conn)
		HASH_ADD(hh_engine, x->b->by_engine, conn, sizeof(c->conn), c);
}

/* A held connection is no more than what its client asked for. */
static void conns_held(struct mpib_broker_serialize *x, struct peer_conn *c)
{
	mpib_serial_raw(x->p, &c->handle, sizeof(c->handle));
	mpib_serial_u8(x->p, &c->traffic_class);
	if (x->p->packing || x->p->failed)
		return;
	peer_conn_set_peer(c, mpib_peer_of_handle(x->b, 0, &c->handle));
	if (!c->peer)
		mpib_serial_fail(x->p, "no memory for a peer");
}

static struct peer_conn *conns_make_conn(struct mpib_broker_serialize *x,
					 uint32_t id, uint32_t index,
					 bool sender)
{
	struct peer_client *o = NULL;
	struct peer_conn *c;

	conns_client(x, &o);
	if (x->p->failed || o->conn[index])
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->broker = x->b;
	c->client = o;
	c->id = id;
	c->index = index;
	c->sender = sender;
	HASH_ADD(hh, x->b->conns, id, sizeof(c->id), c);
	o->conn[index] = c;
	o->conns++;
	return c;
}

static void handover_conns_conn(struct mpib_broker_serialize *x,
				struct peer_conn *c)
{
	struct mpib_serial *p = x->p;
	uint32_t id = c ? c->id : 0, index = c ? c->index : 0;
	uint32_t state = c ? c->state : 0;
	bool sender = c && c->sender;

	mpib_serial_mark(p, "conn");
	mpib_serial_u32(p, &id);
	mpib_serial_count(p, &index, MPIB_CONNS_MAX - 1);
	mpib_serial_bool(p, &sender);
	mpib_serial_count(p, &state, PEER_CONN_OVER);
	if (p->packing)
		conns_client(x, &c->client);
	else
		c = conns_make_conn(x, id, index, sender);
	if (!c) {
		mpib_serial_fail(p, "no place for a connection");
		return;
	}
	c->state = (enum peer_conn_state)state;
	mpib_serial_u64(p, &c->since);
	mpib_serial_i32(p, &c->error);
	mpib_serial_text(p, c->why, sizeof(c->why));
	if (c->state == PEER_CONN_ACCEPT)
		conns_accepting(x, c);
	else if (c->state == PEER_CONN_READY)
		conns_ready(x, c);
	else if (c->state == PEER_CONN_HELD)
		conns_held(x, c);
}

void mpib_serial_conns(struct mpib_broker_serialize *x)
{
	struct peer_conn *c = x->b->conns;
	uint32_t n = HASH_COUNT(c);

	mpib_serial_u32(x->p, &n);
	while (n-- > 0 && !x->p->failed) {
		handover_conns_conn(x, x->p->packing ? c : NULL);
		c = x->p->packing ? c->hh.next : NULL;
	}
}
