/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hand-over of lanes: fence every rail, serialize the lanes without QPs, and
 * bring the rails back, in the new process or, if the hand-over fails, in the
 * old one. Control thread.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "engine/conn/conn.h"
#include "engine/handover/handover.h"
#include "engine/lane/spread.h"
#include "engine/recovery/failover.h"

bool mpib_lane_can_move(const struct mpib_lane *lane)
{
	return lane->failover && lane->ctl.settled && !lane->ctl.over &&
	       !lane->broken;
}

void mpib_engine_leave(struct mpib_engine *engine)
{
	struct mpib_lane *lane;

	engine->leaving = true;
	TAILQ_FOREACH(lane, &engine->lanes, made_link)
	{
		if (!lane->failover || !lane->ctl.settled)
			continue;
		for (unsigned r = 0; r < lane->rails; r++)
			mpib_failover_fault(lane, r, MPIB_CAUSE_UPGRADE);
	}
}

static bool is_down(const struct mpib_rail_control *ctl)
{
	return ctl->fence.state == MPIB_FENCE_DOWN && !ctl->replaying;
}

bool mpib_lane_moved(const struct mpib_lane *lane)
{
	return lane->ctl.moved;
}

bool mpib_lane_left(const struct mpib_lane *lane)
{
	for (unsigned r = 0; r < lane->rails; r++) {
		if (!is_down(&lane->ctl.rail[r]))
			return false;
	}
	return true;
}

bool mpib_engine_left(const struct mpib_engine *engine)
{
	const struct mpib_lane *lane;

	TAILQ_FOREACH(lane, &engine->lanes, made_link)
	{
		if (!mpib_lane_left(lane))
			return false;
	}
	return true;
}

void mpib_engine_stay(struct mpib_engine *engine)
{
	struct mpib_lane *lane;

	engine->leaving = false;
	TAILQ_FOREACH(lane, &engine->lanes, made_link)
	{
		for (unsigned r = 0; r < lane->rails; r++) {
			if (lane->failover && is_down(&lane->ctl.rail[r]))
				mpib_rail_back(lane, r);
		}
	}
	/* What came due meanwhile was left alone. */
	mpib_rail_arm(engine, mpib_now_ns());
}

static bool lane_moves(const struct mpib_lane *lane)
{
	for (unsigned r = 0; r < lane->rails; r++) {
		if (lane->ctl.rail[r].fence.state == MPIB_FENCE_LIVE)
			return true;
	}
	return lane->ctl.over;
}

bool mpib_engine_moves(const struct mpib_engine *engine)
{
	const struct mpib_lane *lane;

	TAILQ_FOREACH(lane, &engine->lanes, made_link)
	{
		if (!lane_moves(lane))
			return false;
	}
	return true;
}

MPIB_SERIAL_SIZE(struct mpib_lane_rail_info, 288);
static void lane_reconnect(struct mpib_serial *p, struct mpib_lane_rail_info *i)
{
	mpib_serial_raw(p, i->gid, sizeof(i->gid));
	mpib_serial_u16(p, &i->lid);
	mpib_serial_u8(p, &i->mtu);
	mpib_serial_u8(p, &i->link_layer);
	mpib_serial_u8(p, &i->qps);
	mpib_serial_u32(p, &i->max_msg_sz);
	mpib_serial_bool(p, &i->ece);
	for (unsigned q = 0; q < MPIB_QPS_MAX; q++) {
		mpib_serial_u32(p, &i->qpn[q]);
		mpib_serial_u32(p, &i->psn[q]);
		mpib_serial_u32(p, &i->ece_vendor[q]);
		mpib_serial_u32(p, &i->ece_options[q]);
	}
}

/* This end's bitmaps of the fence that was just completed, which the peer may
 * not have. */
static void lane_bitmaps(struct mpib_serial *p, struct mpib_recv_bitmaps *a)
{
	mpib_serial_bool(p, &a->kept);
	mpib_serial_count(p, &a->n, 2 * ENGINE_CONNS_MAX);
	if (!p->packing && a->n && !p->failed)
		a->v = mpib_xcalloc(a->n * sizeof(*a->v));
	for (uint32_t i = 0; i < a->n && !p->failed; i++) {
		struct mpib_recv_bitmap *bitmap = &a->v[i];

		mpib_serial_u32(p, &bitmap->conn);
		mpib_serial_bool(p, &bitmap->sender);
		mpib_serial_u64(p, &bitmap->first);
		mpib_serial_u16(p, &bitmap->slots);
		mpib_serial_raw(p, bitmap->seen, sizeof(bitmap->seen));
	}
}

static void lane_rail(struct mpib_serial *p, struct mpib_lane *lane, unsigned r)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[r];

	mpib_serial_count(p, &lane->qps[r], MPIB_QPS_MAX);
	mpib_serial_u32(p, &lane->epoch[r]);
	mpib_serial_u32(p, &ctl->fence.epoch);
	mpib_serial_bool(p, &ctl->fence.peer_reconnects);
	mpib_serial_bool(p, &ctl->peer_drains);
	mpib_serial_u32(p, &ctl->failures);
	lane_reconnect(p, &ctl->reconnect);
	lane_bitmaps(p, &ctl->ours[(ctl->fence.epoch - 1) & 1]);
	if (p->packing)
		return;
	ctl->fence.state = MPIB_FENCE_DOWN;
	ctl->fence.healthy = lane->shard->rail[r].up;
	ctl->fence.held = true;
	ctl->cause = MPIB_CAUSE_UPGRADE;
	ctl->stopped_ns = mpib_now_ns();
	lane->drain |= (uint8_t)(ctl->peer_drains << r);
}

/* Like mpib_lane_create() and mpib_lane_connect(), but without QPs. The shards
 * are halted, so this may put the lane on the shard's list. */
static struct mpib_lane *lane_make(struct mpib_tenant *tenant)
{
	struct mpib_shard *s = tenant->shard;
	struct mpib_lane *lane = calloc(1, sizeof(*lane));

	if (!lane)
		return NULL;
	lane->shard = s;
	lane->tenant = tenant;
	mpib_tenant_hold(tenant);
	lane->depth = s->engine->cfg.sq_depth;
	lane->failover = true;
	lane->ctl.moved = true;
	lane->use_since = s->now;
	lane->drain = mpib_rail_bits(s, mpib_engine_drained(s->engine));
	TAILQ_INIT(&lane->conns);
	lane->full_turn = UINT64_MAX;
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		mpib_tracker_init(&lane->track[r]);
		lane->track[r].sum = &s->rail[r].bytes;
	}
	mpib_adapt_init(&lane->adapt, lane->track, s->now);
	s->lanes_made++;
	lane->connected = true;
	TAILQ_INSERT_TAIL(&s->engine->lanes, lane, made_link);
	TAILQ_INSERT_TAIL(&s->lanes, lane, link);
	return lane;
}

void mpib_lane_serialize(struct mpib_serial *p, struct mpib_lane **lane,
			 struct mpib_tenant *tenant)
{
	struct mpib_engine *e = tenant->shard->engine;
	struct mpib_lane *l = p->packing ? *lane : lane_make(tenant);
	uint32_t rails = l ? l->rails : 0, spread = l ? l->spread : 0;

	*lane = l;
	if (!l) {
		mpib_serial_fail(p, "no memory for a lane");
		return;
	}
	mpib_serial_mark(p, "lane");
	mpib_serial_u8(p, &l->imm_version);
	mpib_serial_u8(p, &l->path);
	mpib_serial_u8(p, &l->traffic_class);
	mpib_serial_u64(p, &l->ctl.conns);
	mpib_serial_count(p, &spread, MPIB_SPREAD_AUTO);
	l->spread = (uint8_t)spread;
	mpib_serial_bool(p, &l->delivered);
	mpib_serial_u32(p, &l->frag);
	mpib_serial_u32(p, &l->msg_most);
	mpib_serial_text(p, l->peer, sizeof(l->peer));
	mpib_serial_count(p, &rails, e->cfg.rails);
	l->rails = (uint8_t)rails;
	l->all = (uint8_t)((1u << rails) - 1);
	for (unsigned r = 0; r < rails; r++)
		lane_rail(p, l, r);
	mpib_lane_counts_serialize(p, l);
	if (p->packing || p->failed)
		return;
	if (spread != MPIB_SPREAD_SPLIT && !l->shard->vcq)
		mpib_serial_fail(p,
				 "there are lanes of %s, and lane.spread is "
				 "split now",
				 mpib_spread_name((enum mpib_spread)spread));
	else if (mpib_spread_make(l) < 0)
		mpib_serial_fail(p, "no memory for a lane");
	l->ctl.settled = true;
	l->ctl.grace_until =
		mpib_now_ns() + e->cfg.grace_ms * (uint64_t)1000000;
	mpib_rail_arm(e, l->ctl.grace_until);
}
