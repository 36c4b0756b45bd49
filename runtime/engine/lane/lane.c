/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes on the control thread: creating a lane, agreeing with the peer on its
 * rails and QPs, connecting and destroying it. on_connect() and
 * lane_on_destroy() run on the shard. */
#include "engine/lane/lane.h"

#include <errno.h>
#include <mpib/wire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/lane/spread.h"
#include "engine/rail/rail.h"
#include "engine/split/mode.h"
#include "verbs/explain.h"

void mpib_lane_free(struct mpib_lane *lane)
{
	struct mpib_engine *e = lane->shard->engine;

	mpib_spread_free(lane);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		mpib_lane_free_qps(lane, r);
	TAILQ_REMOVE(lane->connected ? &e->lanes : &e->asked, lane, made_link);
	mpib_failover_end(lane);
	lane->shard->lanes_made--;
	mpib_tenant_put(lane->tenant);
	free(lane);
}

/* Return the number of rails of a lane. In vanilla mode (isolation) a lane to
 * another island has no SUP. */
static uint8_t rails_of(const struct mpib_engine_config *cfg,
			enum mpib_path path)
{
	bool isolated = cfg->mode == MPIB_MODE_VANILLA;

	return isolated && path != MPIB_PATH_INTRA ? 1 : (uint8_t)cfg->rails;
}

/* Check whether this end can create the lane that the opener wants. If it
 * cannot, set the last error. -EPROTO: the ends are configured differently.
 * -ENOTSUP: this end cannot create such a lane. Either both ends must be in
 * vanilla mode, or neither. In vanilla mode the ends must agree on whether the
 * lane leaves the island. */
static int check_want(struct mpib_engine *e, enum mpib_path path,
		      const struct mpib_lane_info *want)
{
	enum mpib_spread spread = mpib_engine_spread(e);
	bool isolated = e->cfg.mode == MPIB_MODE_VANILLA;
	bool known = want->imm_version == MPIB_IMM_V1 ||
		     want->imm_version == MPIB_IMM_V2;

	if (want->spread != spread)
		return mpib_last_error_set(
			e, -EPROTO,
			"it spreads lanes by %s, and the other end by %s (give "
			"both nodes the same lane.spread)",
			mpib_spread_name(spread),
			mpib_spread_name((enum mpib_spread)want->spread));
	if (isolated != (want->mode == MPIB_MODE_VANILLA) ||
	    (isolated && want->path != path))
		return mpib_last_error_set(
			e, -EPROTO,
			"its mode and path are %s, %s, those of the other end "
			"are %s, %s (give both nodes the same mode and "
			"islands)",
			mpib_mode_name((enum mpib_mode)e->cfg.mode),
			mpib_path_name(path),
			mpib_mode_name((enum mpib_mode)want->mode),
			mpib_path_name((enum mpib_path)want->path));
	for (unsigned r = 0; r < want->rails; r++)
		known = known && want->rail[r].qps >= 1 &&
			want->rail[r].qps <= MPIB_QPS_MAX;
	if (!known || want->rails != rails_of(&e->cfg, path))
		return mpib_last_error_set(
			e, -ENOTSUP,
			"it cannot match a lane of %u rail%s (give both nodes "
			"the same rails)",
			want->rails, want->rails == 1 ? "" : "s");
	return 0;
}

/* Exclude rails from a lane that is not connected yet: the rails that this
 * shard has lost (rail/rail.h) and the rails that the peer has lost (`theirs`).
 * If no other rail is left, or the lane has no failover, return -ENETDOWN and
 * set the last error. */
static int lane_leave_out(struct mpib_lane *lane, uint8_t theirs)
{
	struct mpib_engine *e = lane->shard->engine;
	uint8_t ours = mpib_shard_absent(lane->shard) & lane->all;
	char rails[160];

	theirs &= lane->all;
	lane->away |= ours | theirs;
	if (!lane->away)
		return 0;
	mpib_absent_say(lane->shard, ours, theirs, rails, sizeof(rails));
	if (lane->away == lane->all)
		return mpib_last_error_set(
			e, -ENETDOWN,
			"no rail is left that both ends have, the device "
			"failed, was removed, or its port was down when "
			"mpib-proxy started: %s (it is opened again once it "
			"works)",
			rails);
	if (!lane->failover)
		return mpib_last_error_set(
			e, -ENETDOWN,
			"a device failed or was removed: %s (to connect "
			"without it, set failover.enable at both ends)",
			rails);
	return 0;
}

/* Create the QPs of a rail. An excluded rail gets its QPs later, but this call
 * sets the number of its QPs. */
static int lane_make_rail(struct mpib_lane *l, unsigned r, uint32_t qps,
			  bool by_peer)
{
	int rc = mpib_tenant_may_have(l->tenant, r, qps, by_peer);

	if (rc == 0 && !(l->away >> r & 1))
		rc = mpib_lane_make_qps(l, r, qps);
	if (rc < 0 && mpib_rail_is_gone(l->shard, r, rc)) {
		mpib_lane_free_qps(l, r);
		rc = lane_leave_out(l, 0);
	}
	l->qps[r] = qps;
	return rc;
}

int mpib_lane_create(struct mpib_tenant *tenant, uint8_t imm_version,
		     enum mpib_path path, const struct mpib_lane_info *want,
		     struct mpib_lane **lane)
{
	const struct mpib_engine_config *cfg = &tenant->shard->engine->cfg;
	struct mpib_lane *l;
	int rc = want ? check_want(tenant->shard->engine, path, want) : 0;

	if (rc < 0)
		return rc;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->shard = tenant->shard;
	l->tenant = tenant;
	mpib_tenant_hold(tenant);
	l->rails = rails_of(cfg, path);
	l->path = (uint8_t)path;
	l->imm_version = want ? want->imm_version : imm_version;
	l->depth = cfg->sq_depth;
	l->msg_most = UINT32_MAX;
	l->spread = (uint8_t)mpib_engine_spread(tenant->shard->engine);
	l->frag = cfg->frag & ~(uint32_t)(MPIB_ALIGN - 1);
	l->failover =
		cfg->failover && l->rails > 1 && (!want || want->failover);
	l->delivered = cfg->completion != MPIB_COMPLETION_WIRE &&
		       (!want || want->delivered);
	l->all = (uint8_t)((1u << l->rails) - 1);
	TAILQ_INIT(&l->conns);
	l->full_turn = UINT64_MAX;
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		mpib_tracker_init(&l->track[r], &l->shard->rail[r].bytes);
		l->ctl.rail[r].downs = l->shard->rail[r].downs;
	}
	l->shard->lanes_made++;
	TAILQ_INSERT_TAIL(&l->shard->engine->asked, l, made_link);
	rc = lane_leave_out(l, want ? want->away : 0);
	if (rc < 0)
		goto err_lane;
	for (unsigned r = 0; r < l->rails; r++) {
		rc = lane_make_rail(
			l, r, want ? want->rail[r].qps : cfg->qps[r], want);
		if (rc < 0)
			goto err_lane;
	}
	rc = mpib_spread_make(l);
	if (rc < 0)
		goto err_lane;
	*lane = l;
	return 0;

err_lane:
	mpib_lane_free(l);
	return rc;
}

void mpib_lane_local(const struct mpib_lane *lane, struct mpib_lane_info *info)
{
	memset(info, 0, sizeof(*info));
	info->imm_version = lane->imm_version;
	info->mode = lane->shard->engine->cfg.mode;
	info->path = lane->path;
	info->rails = lane->rails;
	info->failover = lane->failover;
	info->spread = lane->spread;
	info->delivered = lane->delivered;
	info->away = lane->away;
	for (unsigned r = 0; r < lane->rails; r++)
		mpib_lane_rail_local(lane, r, &info->rail[r]);
}

static void on_connect(struct mpib_msg *msg)
{
	struct mpib_lane *lane = container_of(msg, struct mpib_lane, msg);
	struct mpib_shard *s = lane->shard;

	mpib_adapt_init(&lane->adapt, lane->track, s->now);
	TAILQ_INSERT_TAIL(&s->lanes, lane, link);
	/* An excluded rail stays DOWN. The end that lost the device will fence
	 * the rail. */
	for (unsigned r = 0; r < lane->rails; r++) {
		if (!(lane->away >> r & 1))
			mpib_rail_enter(lane, r, MPIB_RAIL_LIVE);
	}
}

/* Return whether the peer has made the lane that this end requested. */
static bool same_shape(const struct mpib_lane *lane,
		       const struct mpib_lane_info *remote)
{
	if (remote->rails != lane->rails ||
	    remote->imm_version != lane->imm_version ||
	    remote->spread != lane->spread)
		return false;
	for (unsigned r = 0; r < lane->rails; r++) {
		if (remote->rail[r].qps != lane->qps[r])
			return false;
	}
	return true;
}

static int check_layers(const struct mpib_lane *lane,
			const struct mpib_lane_info *remote, char *why,
			size_t why_len)
{
	for (unsigned r = 0; r < lane->rails; r++) {
		uint8_t ours = lane->shard->rail[r].port.link_layer;
		uint8_t theirs = remote->rail[r].link_layer;

		if (ours == theirs)
			continue;
		snprintf(why, why_len,
			 "rail %s is %s at this node but %s at the other "
			 "(give both nodes rails of the same link layer)",
			 mpib_rail_name(r), mpib_link_layer_name(ours),
			 mpib_link_layer_name(theirs));
		return -EPROTO;
	}
	return 0;
}

/* Exclude the rails that either end has lost. */
static int lane_shorten(struct mpib_lane *lane,
			const struct mpib_lane_info *remote, char *why,
			size_t why_len)
{
	int rc = lane_leave_out(lane, remote->away);

	if (rc < 0)
		snprintf(why, why_len, "%s",
			 mpib_engine_last_error(lane->shard->engine, rc));
	return rc;
}

static int lane_connect_rail(struct mpib_lane *lane, unsigned r,
			     const struct mpib_lane_info *remote, char *why,
			     size_t why_len)
{
	int rc = mpib_lane_connect_rail(lane, r, &remote->rail[r]);

	if (rc == 0)
		return 0;
	if (mpib_rail_is_gone(lane->shard, r, rc))
		return lane_shorten(lane, remote, why, why_len);
	mpib_verbs_explain(mpib_rail_spec(lane->shard, r), NULL,
			   rc == -EADDRNOTAVAIL ? "ibv_query_port"
						: "ibv_modify_qp",
			   rc, why, why_len);
	return rc;
}

int mpib_lane_connect(struct mpib_lane *lane,
		      const struct mpib_lane_info *remote, char *why,
		      size_t why_len)
{
	int rc;

	if (!same_shape(lane, remote)) {
		snprintf(why, why_len, "rails or QPs of the two ends differ");
		return -EPROTO;
	}
	if (check_layers(lane, remote, why, why_len) < 0)
		return -EPROTO;
	for (unsigned r = 0; r < lane->rails; r++)
		memcpy(lane->peer_gid[r].raw, remote->rail[r].gid,
		       sizeof(remote->rail[r].gid));
	lane->failover = lane->failover && remote->failover;
	lane->delivered = lane->delivered && remote->delivered;
	rc = lane_shorten(lane, remote, why, why_len);
	for (unsigned r = 0; rc == 0 && r < lane->rails; r++) {
		if (!(lane->away >> r & 1))
			rc = lane_connect_rail(lane, r, remote, why, why_len);
	}
	if (rc < 0)
		return rc;
	lane->connected = true;
	TAILQ_REMOVE(&lane->shard->engine->asked, lane, made_link);
	TAILQ_INSERT_TAIL(&lane->shard->engine->lanes, lane, made_link);
	mpib_mailbox_send(&lane->shard->mailbox, &lane->msg, on_connect);
	return 0;
}

void mpib_lane_set_label(struct mpib_lane *lane, const char *peer)
{
	snprintf(lane->peer, sizeof(lane->peer), "%s", peer);
}

static void lane_on_destroy(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);
	struct mpib_lane *lane = call->what;
	struct mpib_shard *s = lane->shard;

	if (lane->connected) {
		TAILQ_REMOVE(&s->lanes, lane, link);
		for (unsigned r = 0; r < lane->rails; r++) {
			mpib_rail_enter(lane, r, MPIB_RAIL_DOWN);
			mpib_rail_counts_add(&s->rail[r].n.n, &lane->n[r]);
		}
		/* the lane is on shard->watched */
		if (lane->watched)
			LIST_REMOVE(lane, watch_link);
	}
	mpib_call_done(s, call, 0);
}

static void lane_destroyed(struct mpib_call *call)
{
	mpib_lane_free(call->what);
}

void mpib_lane_destroy(struct mpib_lane *lane, mpib_done_fn *done, void *arg)
{
	struct mpib_call *call = mpib_call_new(lane, done, arg);

	call->after = lane_destroyed;
	mpib_mailbox_send(&lane->shard->mailbox, &call->msg, lane_on_destroy);
}
