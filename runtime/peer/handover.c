/* SPDX-License-Identifier: Apache-2.0 */
#include "peer/handover.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/handover/handover.h"
#include "peer/internal.h"

struct parcel {
	struct mpib_parcel *p;
	struct mpib_broker *b;
	mpib_owner_fn *owner;
	void *arg;
};

static bool conn_settled(const struct mpib_bconn *c)
{
	if (c->state == MPIB_BCONN_OVER)
		return !c->flow && !c->lane && !c->dropped;
	return c->state == MPIB_BCONN_READY || c->state == MPIB_BCONN_ACCEPT;
}

static bool link_settled(const struct mpib_peer *p)
{
	return p->state == MPIB_PEER_UP && !p->resuming;
}

static int lane_settled(struct mpib_blane *l, char *why, size_t why_len)
{
	bool can = l->state == MPIB_BLANE_UP && mpib_lane_can_move(l->lane) &&
		   l->peer->version >= MPIB_PEER_VERSION_MOVE;

	if (!link_settled(l->peer)) {
		snprintf(why, why_len, "the link to %s is being made again",
			 l->peer->label);
		return -EAGAIN;
	}
	if (can)
		return 0;
	if (l->state == MPIB_BLANE_UP && l->uses > 0) {
		snprintf(why, why_len,
			 "connections to %s cannot be moved: %s (close them "
			 "first)",
			 l->peer->label,
			 l->peer->version < MPIB_PEER_VERSION_MOVE
				 ? "its mpib-proxy is older"
				 : "they have no fail-over between two rails");
		return -EBUSY;
	}
	if (l->state == MPIB_BLANE_UP)
		mpib_blane_kill(l, -ECANCELED, "its proxy is upgraded");
	snprintf(why, why_len, "a lane to %s is on its way", l->peer->label);
	return -EAGAIN;
}

int mpib_broker_settled(struct mpib_broker *b, char *why, size_t why_len)
{
	struct mpib_blane *l, *next;
	int again = 0, rc;

	for (const struct mpib_bconn *c = b->conns; c; c = c->hh.next) {
		if (conn_settled(c))
			continue;
		snprintf(why, why_len,
			 "connection %u of client %u is being opened or closed",
			 c->index, mpib_attachment_id(c->owner->attachment));
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

static void node(struct mpib_parcel *p, struct mpib_node_id *n)
{
	mpib_parcel_raw(p, &n->addr, sizeof(n->addr));
	mpib_parcel_u16(p, &n->port);
	mpib_parcel_u64(p, &n->boot);
	mpib_parcel_raw(p, &n->sout, sizeof(n->sout));
}

static void owner(struct parcel *x, struct mpib_owner **o)
{
	uint32_t id = x->p->packing ? mpib_attachment_id((*o)->attachment) : 0;

	mpib_parcel_u32(x->p, &id);
	if (!x->p->packing)
		*o = x->p->failed ? NULL : x->owner(x->arg, id);
	if (!*o)
		mpib_parcel_fail(x->p, "there is no client %u", id);
}

/* By its id, 0 for none. */
static void lane_of(struct parcel *x, struct mpib_blane **lane)
{
	uint32_t id = x->p->packing && *lane ? (*lane)->id : 0;

	mpib_parcel_u32(x->p, &id);
	if (!x->p->packing)
		HASH_FIND(hh, x->b->lanes, &id, sizeof(id), *lane);
	if (!*lane && id)
		mpib_parcel_fail(x->p, "there is no lane %u", id);
}

/* The shard that our end is on. */
static unsigned shard_of(const struct mpib_blane *l)
{
	return l->ours ? l->key.from_shard : l->key.to_shard;
}

static void lane_body(struct parcel *x, struct mpib_blane *l)
{
	struct mpib_tenant *tenant = NULL;
	int rc = shard_of(l) < mpib_engine_shards(x->b->engine)
			 ? mpib_tenant_get(x->b->engine, shard_of(l),
					   l->key.uid, &tenant)
			 : -EINVAL;

	if (rc < 0) {
		mpib_parcel_fail(x->p, "no protection domain for uid %u: %s",
				 l->key.uid,
				 mpib_engine_trouble(x->b->engine, rc));
		return;
	}
	mpib_lane_parcel(x->p, &l->lane, tenant);
	mpib_tenant_put(tenant);
}

static void lane(struct parcel *x, struct mpib_peer *peer, struct mpib_blane *l)
{
	struct mpib_parcel *p = x->p;
	struct mpib_lane_key key = { 0 };
	bool ours = false;
	uint32_t id = 0;

	if (l) {
		key = l->key;
		ours = l->ours;
		id = l->id;
	}
	mpib_parcel_mark(p, "blane");
	mpib_parcel_u32(p, &key.uid);
	mpib_parcel_u16(p, &key.from_shard);
	mpib_parcel_u16(p, &key.to_shard);
	mpib_parcel_u8(p, &key.traffic_class);
	mpib_parcel_u64(p, &key.serial);
	mpib_parcel_bool(p, &ours);
	mpib_parcel_u32(p, &id);
	if (!p->packing && !p->failed)
		l = mpib_blane_restore(peer, &key, ours, id);
	if (!l || p->failed) {
		mpib_parcel_fail(p, "no memory for a lane");
		return;
	}
	mpib_parcel_u32(p, &l->their_id);
	mpib_parcel_raw(p, &l->sup_src, sizeof(l->sup_src));
	mpib_parcel_raw(p, &l->sup_dst, sizeof(l->sup_dst));
	lane_body(x, l);
}

/* The session, with what of ours they have not got yet. */
static void resume(struct mpib_parcel *p, struct mpib_resume *r)
{
	uint32_t n = (uint32_t)(r->len - r->at);

	mpib_parcel_u64(p, &r->id);
	mpib_parcel_u64(p, &r->sent);
	mpib_parcel_u64(p, &r->acked);
	mpib_parcel_u64(p, &r->seen);
	mpib_parcel_count(p, &n, 1u << 30);
	if (!p->packing && n) {
		r->buf = malloc(n);
		if (!r->buf) {
			mpib_parcel_fail(p, "no memory for a link");
			return;
		}
		r->len = r->cap = n;
	}
	if (n)
		mpib_parcel_raw(p, r->buf + r->at, n);
}

static void peer_lanes(struct parcel *x, struct mpib_peer *peer)
{
	uint32_t n = peer->lane_count;
	struct mpib_blane *l = TAILQ_FIRST(&peer->lanes);

	mpib_parcel_count(x->p, &n, 2 * MPIB_LANES_MAX);
	while (n-- > 0 && !x->p->failed) {
		lane(x, peer, x->p->packing ? l : NULL);
		l = l ? TAILQ_NEXT(l, entry) : NULL;
	}
}

static void peer(struct parcel *x, struct mpib_peer *peer)
{
	struct mpib_parcel *p = x->p;
	struct mpib_node_id id = { 0 };
	struct mpib_link *link = NULL;
	bool called = false;

	if (peer) {
		id = peer->node;
		called = peer->called;
		link = peer->link;
	}
	mpib_parcel_mark(p, "peer");
	node(p, &id);
	mpib_parcel_bool(p, &called);
	if (!p->packing && !p->failed)
		peer = mpib_peer_find(x->b, id.addr, id.port, called);
	if (!peer) {
		mpib_parcel_fail(p, "no memory for a peer");
		return;
	}
	peer->node = id;
	mpib_parcel_u16(p, &peer->version);
	resume(p, &peer->resume);
	mpib_link_parcel(p, x->b->loop, &link);
	if (!link)
		return;
	if (!p->packing) {
		mpib_link_set_patience(link, x->b->silence_s);
		mpib_peer_goes_on(peer, link);
	}
	peer_lanes(x, peer);
}

static void peers(struct parcel *x)
{
	struct mpib_peer *p;
	uint32_t n = 0;

	/* Calls under way are made again when somebody wants them. */
	TAILQ_FOREACH(p, &x->b->peers, entry)
	n += link_settled(p);
	mpib_parcel_u32(x->p, &n);
	if (!x->p->packing) {
		while (n-- > 0 && !x->p->failed)
			peer(x, NULL);
		return;
	}
	TAILQ_FOREACH(p, &x->b->peers, entry)
	{
		if (link_settled(p))
			peer(x, p);
	}
}

static void waiter(struct parcel *x, struct mpib_listener_entry *l,
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

static void listener(struct parcel *x, struct mpib_listener_entry *l)
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

static void listeners(struct parcel *x)
{
	struct mpib_listener_entry *l = x->b->listeners;
	uint32_t n = HASH_COUNT(l);

	mpib_parcel_count(x->p, &n, MPIB_LISTENERS_MAX);
	while (n-- > 0 && !x->p->failed) {
		listener(x, l);
		l = x->p->packing ? l->hh.next : NULL;
	}
}

static void accepting(struct parcel *x, struct mpib_bconn *c)
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

static void ready(struct parcel *x, struct mpib_bconn *c)
{
	struct mpib_parcel *p = x->p;
	struct mpib_blane *l = c->lane;

	mpib_parcel_u32(p, &c->their_id);
	lane_of(x, &l);
	if (!l || p->failed)
		return;
	if (!p->packing) {
		c->peer = l->peer;
		c->known = true;
		mpib_blane_join(l, c);
	}
	mpib_flow_parcel(p, &c->flow, c->owner->attachment, c->index, c->sender,
			 l->lane);
	if (!p->packing && c->flow)
		HASH_ADD(hh_flow, x->b->by_flow, flow, sizeof(c->flow), c);
}

static struct mpib_bconn *make_conn(struct parcel *x, uint32_t id,
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

static void conn(struct parcel *x, struct mpib_bconn *c)
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
}

static void conns(struct parcel *x)
{
	struct mpib_bconn *c = x->b->conns;
	uint32_t n = HASH_COUNT(c);

	mpib_parcel_u32(x->p, &n);
	while (n-- > 0 && !x->p->failed) {
		conn(x, x->p->packing ? c : NULL);
		c = x->p->packing ? c->hh.next : NULL;
	}
}

void mpib_broker_parcel(struct mpib_parcel *p, struct mpib_broker *b,
			mpib_owner_fn *by_id, void *arg)
{
	struct parcel x = { .p = p, .b = b, .owner = by_id, .arg = arg };
	uint32_t sout = b->self.sout;

	mpib_parcel_mark(p, "broker");
	node(p, &b->self);
	b->self.sout = sout;
	mpib_parcel_u32(p, &b->next_id);
	mpib_parcel_u64(p, &b->serial);
	mpib_parcel_u64(p, &b->sessions);
	mpib_parcel_fd(p, &b->fd);
	peers(&x);
	listeners(&x);
	conns(&x);
	mpib_parcel_mark(p, "end");
}

int mpib_broker_go_on(struct mpib_broker *b)
{
	int rc = mpib_hello_accept(b);
	struct mpib_bconn *c;
	struct mpib_peer *p;

	for (c = b->conns; c; c = c->hh.next) {
		struct mpib_peer_msg m = {
			.type = MPIB_PEER_CONN_MOVED,
			.to = c->their_id,
		};

		if (c->state != MPIB_BCONN_READY)
			continue;
		mpib_flow_local(c->flow, &m.flow);
		mpib_blane_tell(c->lane, &m);
		mpib_bconn_want_hint(c);
	}
	TAILQ_FOREACH(p, &b->peers, entry)
	{
		if (p->state == MPIB_PEER_UP && rc == 0)
			rc = mpib_link_listen(p->link, true);
	}
	return rc;
}
