/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "engine/handover/handover.h"
#include "peer/handover/parcel.h"

static void owner(struct mpib_broker_parcel *x, struct mpib_owner **o)
{
	uint32_t id = x->p->packing ? mpib_attachment_id((*o)->attachment) : 0;

	mpib_parcel_u32(x->p, &id);
	if (!x->p->packing)
		*o = x->p->failed ? NULL : x->owner(x->arg, id);
	if (!*o)
		mpib_parcel_fail(x->p, "there is no client %u", id);
}

/* By its id, 0 for none. */
static void lane_of(struct mpib_broker_parcel *x, struct mpib_blane **lane)
{
	uint32_t id = x->p->packing && *lane ? (*lane)->id : 0;

	mpib_parcel_u32(x->p, &id);
	if (!x->p->packing)
		HASH_FIND(hh, x->b->lanes, &id, sizeof(id), *lane);
	if (!*lane && id)
		mpib_parcel_fail(x->p, "there is no lane %u", id);
}

static void waiter(struct mpib_broker_parcel *x, struct mpib_listener_entry *l,
		   struct mpib_waiter *w)
{
	struct mpib_parcel *p = x->p;

	if (!p->packing) {
		w = calloc(1, sizeof(*w));
		if (!w) {
			mpib_parcel_fail(p, "no memory for a connect");
			return;
		}
	}
	lane_of(x, &w->lane);
	mpib_parcel_u32(p, &w->from);
	mpib_parcel_u32(p, &w->flow.id);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		mpib_parcel_u32(p, &w->flow.rkey[r]);
	mpib_parcel_u64(p, &w->flow.addr);
	if (p->packing)
		return;
	if (!w->lane || p->failed) {
		mpib_parcel_fail(p, "a connect without a lane");
		free(w);
		return;
	}
	w->peer = w->lane->peer;
	w->lane->uses++;
	TAILQ_INSERT_TAIL(&l->backlog, w, entry);
	l->waiting++;
}

static void listener(struct mpib_broker_parcel *x,
		     struct mpib_listener_entry *l)
{
	struct mpib_parcel *p = x->p;
	uint32_t waiting;
	struct mpib_waiter *w;

	if (!p->packing) {
		l = calloc(1, sizeof(*l));
		if (!l) {
			mpib_parcel_fail(p, "no memory for a listener");
			return;
		}
		TAILQ_INIT(&l->accepts);
		TAILQ_INIT(&l->backlog);
	}
	mpib_parcel_mark(p, "listen");
	mpib_parcel_u32(p, &l->id);
	mpib_parcel_u64(p, &l->nonce);
	owner(x, &l->owner);
	if (!p->packing)
		HASH_ADD(hh, x->b->listeners, id, sizeof(l->id), l);
	waiting = l->waiting;
	mpib_parcel_count(p, &waiting, MPIB_BACKLOG_MAX);
	w = TAILQ_FIRST(&l->backlog);
	while (waiting-- > 0 && !p->failed) {
		waiter(x, l, p->packing ? w : NULL);
		w = p->packing ? TAILQ_NEXT(w, entry) : NULL;
	}
}

void mpib_parcel_listeners(struct mpib_broker_parcel *x)
{
	struct mpib_listener_entry *l = x->b->listeners;
	uint32_t n = HASH_COUNT(l);

	mpib_parcel_count(x->p, &n, MPIB_LISTENERS_MAX);
	while (n-- > 0 && !x->p->failed) {
		listener(x, l);
		l = x->p->packing ? l->hh.next : NULL;
	}
}

static void accepting(struct mpib_broker_parcel *x, struct mpib_bconn *c)
{
	struct mpib_listener_entry *l = c->listener;
	uint32_t id = l ? l->id : 0;

	mpib_parcel_u32(x->p, &id);
	if (x->p->packing)
		return;
	HASH_FIND(hh, x->b->listeners, &id, sizeof(id), l);
	if (!l) {
		mpib_parcel_fail(x->p, "there is no listener %u", id);
		c->state = MPIB_BCONN_OVER;
		return;
	}
	c->listener = l;
	TAILQ_INSERT_TAIL(&l->accepts, c, entry);
}

static void ready(struct mpib_broker_parcel *x, struct mpib_bconn *c)
{
	struct mpib_parcel *p = x->p;
	struct mpib_blane *l = c->lane;

	mpib_parcel_u32(p, &c->their_id);
	lane_of(x, &l);
	if (!l || p->failed)
		return;
	if (!p->packing) {
		mpib_bconn_set_peer(c, l->peer);
		c->known = true;
		mpib_blane_join(l, c);
	}
	mpib_flow_parcel(p, &c->flow, c->owner->attachment, c->index, c->sender,
			 l->lane);
	if (!p->packing && c->flow)
		HASH_ADD(hh_flow, x->b->by_flow, flow, sizeof(c->flow), c);
}

/* What its client asked for is all there is of it. */
static void held(struct mpib_broker_parcel *x, struct mpib_bconn *c)
{
	const struct mpib_handle *h = &c->handle;

	mpib_parcel_raw(x->p, &c->handle, sizeof(c->handle));
	mpib_parcel_u8(x->p, &c->traffic_class);
	if (x->p->packing || x->p->failed)
		return;
	mpib_bconn_set_peer(c, mpib_peer_find(x->b, h->addr, h->port, false));
	if (!c->peer)
		mpib_parcel_fail(x->p, "no memory for a peer");
}

static struct mpib_bconn *make_conn(struct mpib_broker_parcel *x, uint32_t id,
				    uint32_t index, bool sender)
{
	struct mpib_owner *o = NULL;
	struct mpib_bconn *c;

	owner(x, &o);
	if (x->p->failed || o->conn[index])
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->broker = x->b;
	c->owner = o;
	c->id = id;
	c->index = index;
	c->sender = sender;
	HASH_ADD(hh, x->b->conns, id, sizeof(c->id), c);
	o->conn[index] = c;
	o->conns++;
	return c;
}

static void conn(struct mpib_broker_parcel *x, struct mpib_bconn *c)
{
	struct mpib_parcel *p = x->p;
	uint32_t id = c ? c->id : 0, index = c ? c->index : 0;
	uint32_t state = c ? c->state : 0;
	bool sender = c && c->sender;

	mpib_parcel_mark(p, "conn");
	mpib_parcel_u32(p, &id);
	mpib_parcel_count(p, &index, MPIB_CONNS_MAX - 1);
	mpib_parcel_bool(p, &sender);
	mpib_parcel_count(p, &state, MPIB_BCONN_OVER);
	if (p->packing)
		owner(x, &c->owner);
	else
		c = make_conn(x, id, index, sender);
	if (!c) {
		mpib_parcel_fail(p, "no place for a connection");
		return;
	}
	c->state = (enum mpib_bconn_state)state;
	mpib_parcel_u64(p, &c->since);
	mpib_parcel_i32(p, &c->error);
	mpib_parcel_text(p, c->why, sizeof(c->why));
	if (c->state == MPIB_BCONN_ACCEPT)
		accepting(x, c);
	else if (c->state == MPIB_BCONN_READY)
		ready(x, c);
	else if (c->state == MPIB_BCONN_HELD)
		held(x, c);
}

void mpib_parcel_conns(struct mpib_broker_parcel *x)
{
	struct mpib_bconn *c = x->b->conns;
	uint32_t n = HASH_COUNT(c);

	mpib_parcel_u32(x->p, &n);
	while (n-- > 0 && !x->p->failed) {
		conn(x, x->p->packing ? c : NULL);
		c = x->p->packing ? c->hh.next : NULL;
	}
}
