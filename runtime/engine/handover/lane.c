/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes: all rails of all of them fenced, packed, and brought back.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "engine/flow/flow.h"
#include "engine/handover/handover.h"
#include "engine/lane/spread.h"
#include "engine/recovery/failover.h"

bool mpib_lane_can_move(const struct mpib_lane *lane)
{
	return lane->failover && lane->life.settled && !lane->life.over &&
	       !lane->broken;
}

void mpib_engine_leave(struct mpib_engine *engine)
{
	struct mpib_lane *lane;

	engine->leaving = true;
	TAILQ_FOREACH(lane, &engine->lanes, made_link)
	{
		if (!lane->failover || !lane->life.settled)
			continue;
		for (unsigned r = 0; r < lane->rails; r++)
			mpib_failover_fault(lane, r, MPIB_CAUSE_UPGRADE);
	}
}

static bool is_down(const struct mpib_rail_life *life)
{
	return life->fence.state == MPIB_FENCE_DOWN && !life->replaying;
}

bool mpib_engine_left(const struct mpib_engine *engine)
{
	const struct mpib_lane *lane;

	TAILQ_FOREACH(lane, &engine->lanes, made_link)
	{
		for (unsigned r = 0; r < lane->rails; r++) {
			if (!is_down(&lane->life.rail[r]))
				return false;
		}
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
			if (lane->failover && is_down(&lane->life.rail[r]))
				mpib_rail_back(lane, r);
		}
	}
}

static bool moves(const struct mpib_lane *lane)
{
	for (unsigned r = 0; r < lane->rails; r++) {
		if (lane->life.rail[r].fence.state == MPIB_FENCE_LIVE)
			return true;
	}
	return lane->life.over;
}

bool mpib_engine_moves(const struct mpib_engine *engine)
{
	const struct mpib_lane *lane;

	TAILQ_FOREACH(lane, &engine->lanes, made_link)
	{
		if (!moves(lane))
			return false;
	}
	return true;
}

static void offer(struct mpib_parcel *p, struct mpib_lane_rail_info *i)
{
	mpib_parcel_raw(p, i->gid, sizeof(i->gid));
	mpib_parcel_u16(p, &i->lid);
	mpib_parcel_u8(p, &i->mtu);
	mpib_parcel_u8(p, &i->link_layer);
	mpib_parcel_u8(p, &i->qps);
	mpib_parcel_bool(p, &i->ece);
	for (unsigned q = 0; q < MPIB_QPS_MAX; q++) {
		mpib_parcel_u32(p, &i->qpn[q]);
		mpib_parcel_u32(p, &i->psn[q]);
		mpib_parcel_u32(p, &i->ece_vendor[q]);
		mpib_parcel_u32(p, &i->ece_options[q]);
	}
}

static void rail(struct mpib_parcel *p, struct mpib_lane *lane, unsigned r)
{
	struct mpib_rail_life *life = &lane->life.rail[r];

	mpib_parcel_count(p, &lane->qps[r], MPIB_QPS_MAX);
	mpib_parcel_u32(p, &lane->epoch[r]);
	mpib_parcel_u32(p, &life->fence.epoch);
	mpib_parcel_bool(p, &life->fence.peer_offered);
	mpib_parcel_bool(p, &life->peer_drains);
	mpib_parcel_u32(p, &life->failures);
	offer(p, &life->offer);
	if (p->packing)
		return;
	life->fence.state = MPIB_FENCE_DOWN;
	life->fence.healthy = lane->shard->rail[r].up;
	life->fence.held = true;
	life->cause = MPIB_CAUSE_UPGRADE;
	life->stopped_ns = mpib_now_ns();
	lane->drain |= (uint8_t)(life->peer_drains << r);
}

/* As mpib_lane_create() and mpib_lane_connect(), but for the QPs. */
static struct mpib_lane *make(struct mpib_tenant *tenant)
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
	lane->since = s->now;
	lane->drain = (uint8_t)mpib_engine_drained(s->engine);
	TAILQ_INIT(&lane->flows);
	lane->full_turn = UINT64_MAX;
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		mpib_tracker_init(&lane->track[r]);
		lane->track[r].sum = &s->rail[r].inflight;
	}
	mpib_adapt_init(&lane->adapt, s->now);
	s->lanes_made++;
	lane->connected = true;
	TAILQ_INSERT_TAIL(&s->engine->lanes, lane, made_link);
	TAILQ_INSERT_TAIL(&s->lanes, lane, link);
	return lane;
}

void mpib_lane_parcel(struct mpib_parcel *p, struct mpib_lane **lane,
		      struct mpib_tenant *tenant)
{
	struct mpib_engine *e = tenant->shard->engine;
	struct mpib_lane *l = p->packing ? *lane : make(tenant);
	uint32_t rails = l ? l->rails : 0, spread = l ? l->spread : 0;

	*lane = l;
	if (!l) {
		mpib_parcel_fail(p, "no memory for a lane");
		return;
	}
	mpib_parcel_mark(p, "lane");
	mpib_parcel_u8(p, &l->imm_version);
	mpib_parcel_u8(p, &l->path);
	mpib_parcel_u8(p, &l->traffic_class);
	mpib_parcel_count(p, &spread, MPIB_SPREAD_AUTO);
	l->spread = (uint8_t)spread;
	mpib_parcel_bool(p, &l->delivered);
	mpib_parcel_u32(p, &l->frag);
	mpib_parcel_text(p, l->peer, sizeof(l->peer));
	mpib_parcel_count(p, &rails, e->cfg.rails);
	l->rails = (uint8_t)rails;
	l->all = (uint8_t)((1u << rails) - 1);
	for (unsigned r = 0; r < rails; r++)
		rail(p, l, r);
	mpib_lane_counts_parcel(p, l);
	if (p->packing || p->failed)
		return;
	if (spread != MPIB_SPREAD_SPLIT && !l->shard->vcq)
		mpib_parcel_fail(p,
				 "there are lanes of %s, and lane.spread is "
				 "split now",
				 mpib_spread_name((enum mpib_spread)spread));
	else if (mpib_spread_make(l) < 0)
		mpib_parcel_fail(p, "no memory for a lane");
	l->life.settled = true;
	l->life.grace_until =
		mpib_now_ns() + e->cfg.grace_ms * (uint64_t)1000000;
	mpib_rail_arm(e, l->life.grace_until);
}
