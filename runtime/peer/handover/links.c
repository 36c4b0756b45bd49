/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/handover/handover.h"
#include "peer/handover/parcel.h"

bool mpib_peer_settled(const struct mpib_peer *p)
{
	return p->state == MPIB_PEER_UP && !p->resuming;
}

void mpib_parcel_node(struct mpib_parcel *p, struct mpib_node_id *n)
{
	mpib_parcel_raw(p, &n->addr, sizeof(n->addr));
	mpib_parcel_u16(p, &n->port);
	mpib_parcel_u64(p, &n->boot);
	mpib_parcel_raw(p, &n->sout, sizeof(n->sout));
}

/* The shard that our end is on. */
static unsigned shard_of(const struct mpib_blane *l)
{
	return l->ours ? l->key.from_shard : l->key.to_shard;
}

static void lane_body(struct mpib_broker_parcel *x, struct mpib_blane *l)
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

static void lane(struct mpib_broker_parcel *x, struct mpib_peer *peer,
		 struct mpib_blane *l)
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
	if (!p->packing && !p->failed)
		mpib_blane_up(l);
}

static void peer_lanes(struct mpib_broker_parcel *x, struct mpib_peer *peer)
{
	uint32_t n = peer->lane_count;
	struct mpib_blane *l = TAILQ_FIRST(&peer->lanes);

	mpib_parcel_count(x->p, &n, 2 * MPIB_LANES_MAX);
	while (n-- > 0 && !x->p->failed) {
		lane(x, peer, x->p->packing ? l : NULL);
		l = l ? TAILQ_NEXT(l, entry) : NULL;
	}
}

static void peer(struct mpib_broker_parcel *x, struct mpib_peer *peer)
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
	mpib_parcel_node(p, &id);
	mpib_parcel_bool(p, &called);
	if (!p->packing && !p->failed)
		peer = mpib_peer_find(x->b, id.addr, id.port, called);
	if (!peer) {
		mpib_parcel_fail(p, "no memory for a peer");
		return;
	}
	peer->node = id;
	mpib_parcel_u16(p, &peer->version);
	mpib_resume_parcel(p, &peer->resume);
	mpib_link_parcel(p, x->b->loop, &link);
	if (!link)
		return;
	if (!p->packing) {
		mpib_link_set_patience(link, x->b->silence_s);
		mpib_peer_goes_on(peer, link);
	}
	peer_lanes(x, peer);
}

void mpib_parcel_peers(struct mpib_broker_parcel *x)
{
	struct mpib_peer *p;
	uint32_t n = 0;

	/* Calls under way are made again when somebody wants them. */
	TAILQ_FOREACH(p, &x->b->peers, entry)
	n += mpib_peer_settled(p);
	mpib_parcel_u32(x->p, &n);
	if (!x->p->packing) {
		while (n-- > 0 && !x->p->failed)
			peer(x, NULL);
		return;
	}
	TAILQ_FOREACH(p, &x->b->peers, entry)
	{
		if (mpib_peer_settled(p))
			peer(x, p);
	}
}
