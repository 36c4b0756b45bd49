/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hand-over of peers and lanes. Links are made again. Each function both
 * packs and unpacks, as base/serial.h says. Control thread.
 */
#include "engine/handover/handover.h"
#include "peer/handover/serialize.h"

bool mpib_peer_quiescent(const struct mpib_peer *p)
{
	return p->state == MPIB_PEER_UP;
}

MPIB_SERIAL_SIZE(struct mpib_node_id, 40);
void mpib_serial_node(struct mpib_serial *p, struct mpib_node_id *n)
{
	mpib_serial_raw(p, &n->addr, sizeof(n->addr));
	mpib_serial_u16(p, &n->port);
	mpib_serial_u64(p, &n->boot);
	mpib_serial_raw(p, &n->sout, sizeof(n->sout));
}

static void lane_body(struct mpib_broker_serialize *x, struct peer_lane *l)
{
	struct mpib_tenant *tenant = NULL;
	int rc = peer_lane_shard(l) < mpib_engine_shards(x->b->engine)
			 ? mpib_tenant_get(x->b->engine, peer_lane_shard(l),
					   l->key.uid, &tenant)
			 : -EINVAL;

	if (rc < 0) {
		mpib_serial_fail(x->p, "no protection domain for uid %u: %s",
				 l->key.uid,
				 mpib_engine_last_error(x->b->engine, rc));
		return;
	}
	mpib_lane_serialize(x->p, &l->lane, tenant);
	mpib_tenant_put(tenant);
}

static void links_lane(struct mpib_broker_serialize *x, struct mpib_peer *peer,
		       struct peer_lane *l)
{
	struct mpib_serial *p = x->p;
	struct mpib_lane_key key = { 0 };
	bool ours = false;
	uint32_t id = 0;

	if (l) {
		key = l->key;
		ours = l->ours;
		id = l->id;
	}
	mpib_serial_mark(p, "lane");
	mpib_serial_u32(p, &key.uid);
	mpib_serial_u16(p, &key.from_shard);
	mpib_serial_u16(p, &key.to_shard);
	mpib_serial_u8(p, &key.traffic_class);
	mpib_serial_u64(p, &key.serial);
	mpib_serial_bool(p, &ours);
	mpib_serial_u32(p, &id);
	if (!p->packing && !p->failed)
		l = peer_lane_new(peer, &key, ours, id);
	if (!l || p->failed) {
		mpib_serial_fail(p, "no memory for a lane");
		return;
	}
	mpib_serial_u32(p, &l->their_id);
	mpib_serial_raw(p, &l->sup_src, sizeof(l->sup_src));
	mpib_serial_raw(p, &l->sup_dst, sizeof(l->sup_dst));
	lane_body(x, l);
	if (!p->packing && !p->failed)
		peer_lane_up(l);
}

static void peer_lanes(struct mpib_broker_serialize *x, struct mpib_peer *peer)
{
	uint32_t n = peer->lane_count;
	struct peer_lane *l = TAILQ_FIRST(&peer->lanes);

	mpib_serial_count(x->p, &n, 2 * MPIB_LANES_MAX);
	while (n-- > 0 && !x->p->failed) {
		links_lane(x, peer, x->p->packing ? l : NULL);
		l = l ? TAILQ_NEXT(l, entry) : NULL;
	}
}

static void links_peer(struct mpib_broker_serialize *x, struct mpib_peer *peer)
{
	struct mpib_serial *p = x->p;
	struct mpib_node_id id = { 0 };
	bool called = false;

	if (peer) {
		id = peer->node;
		called = peer->called;
	}
	mpib_serial_mark(p, "peer");
	mpib_serial_node(p, &id);
	mpib_serial_bool(p, &called);
	if (!p->packing && !p->failed)
		peer = mpib_peer_find(x->b, 0, &id.addr, id.port, called);
	if (!peer) {
		mpib_serial_fail(p, "no memory for a peer");
		return;
	}
	peer->node = id;
	mpib_serial_raw(p, &peer->second, sizeof(peer->second));
	peer_lanes(x, peer);
}

void mpib_serial_peers(struct mpib_broker_serialize *x)
{
	struct mpib_peer *p;
	uint32_t n = 0;

	/* Only peers whose link is up; other links are made again when
	 * wanted. */
	TAILQ_FOREACH(p, &x->b->peers, entry)
	n += mpib_peer_quiescent(p);
	mpib_serial_u32(x->p, &n);
	if (!x->p->packing) {
		while (n-- > 0 && !x->p->failed)
			links_peer(x, NULL);
		return;
	}
	TAILQ_FOREACH(p, &x->b->peers, entry)
	{
		if (mpib_peer_quiescent(p))
			links_peer(x, p);
	}
}
