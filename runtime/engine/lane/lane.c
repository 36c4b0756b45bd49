/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes on the control thread: QPs made, connected, killed, destroyed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/sure.h"
#include "engine/flow/flow.h"
#include "engine/split/policy.h"
#include "verbs/explain.h"

static int make_qp(struct mpib_lane *lane, unsigned r, unsigned i)
{
	struct mpib_rail *rail = &lane->shard->rail[r];
	struct mpib_lane_qp *q = &lane->qp[r][i];
	struct ibv_qp_init_attr init = {
		.send_cq = rail->cq,
		.recv_cq = rail->cq,
		.srq = lane->tenant->srq[r],
		.cap = {
			.max_send_wr = lane->depth,
			.max_send_sge = 1,
			.max_inline_data = rail->port.max_inline,
		},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = rail->port_num,
		.pkey_index = (uint16_t)lane->shard->engine->cfg.pkey_index,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	int rc;

	memset(q, 0, sizeof(*q));
	q->lane = lane;
	q->rail = (uint8_t)r;
	/* Random, so that a packet of an older QP cannot match. */
	if (getrandom(&q->psn, sizeof(q->psn), 0) != sizeof(q->psn))
		return -EIO;
	q->psn &= 0xffffff;
	rc = rail->verbs->create_qp(lane->tenant->pd[r], &init, &q->qp);
	if (rc < 0)
		return mpib_trouble(lane->shard->engine, r, "ibv_create_qp",
				    rc);
	q->qpn = q->qp->qp_num;
	rc = rail->verbs->modify_qp(q->qp, &attr,
				    IBV_QP_STATE | IBV_QP_PKEY_INDEX |
					    IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	return mpib_trouble(lane->shard->engine, r, "ibv_modify_qp", rc);
}

int mpib_lane_make_qps(struct mpib_lane *lane, unsigned rail, unsigned qps)
{
	for (unsigned i = 0; i < qps; i++) {
		int rc;

		if (lane->qps[rail] <= i)
			lane->qps[rail] = i + 1;
		rc = make_qp(lane, rail, i);
		if (rc < 0)
			return rc;
	}
	return 0;
}

void mpib_lane_free_qps(struct mpib_lane *lane, unsigned rail)
{
	for (unsigned i = 0; i < lane->qps[rail]; i++) {
		struct mpib_lane_qp *q = &lane->qp[rail][i];

		if (q->qp)
			lane->shard->rail[rail].verbs->destroy_qp(q->qp);
		q->qp = NULL;
	}
}

void mpib_lane_free(struct mpib_lane *lane)
{
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		mpib_lane_free_qps(lane, r);
	if (lane->connected)
		TAILQ_REMOVE(&lane->shard->engine->lanes, lane, made_link);
	mpib_failover_end(lane);
	lane->shard->lanes_made--;
	free(lane);
}

/* Isolation leaves SUP out of a lane to another island altogether. */
static uint8_t rails_of(const struct mpib_engine_config *cfg,
			enum mpib_path path)
{
	bool isolated = cfg->mode == MPIB_MODE_VANILLA;

	return isolated && path != MPIB_PATH_INTRA ? 1 : (uint8_t)cfg->rails;
}

static bool same_view(const struct mpib_engine_config *cfg, enum mpib_path path,
		      const struct mpib_lane_info *want)
{
	bool isolated = cfg->mode == MPIB_MODE_VANILLA;

	if (isolated != (want->mode == MPIB_MODE_VANILLA))
		return false;
	return !isolated || want->path == path;
}

char *mpib_lane_view(uint8_t mode, uint8_t path, char *buf, size_t len)
{
	snprintf(buf, len, "%s, %s", mpib_mode_name((enum mpib_mode)mode),
		 mpib_path_name((enum mpib_path)path));
	return buf;
}

static int check_want(const struct mpib_engine_config *cfg, enum mpib_path path,
		      const struct mpib_lane_info *want)
{
	if (!same_view(cfg, path, want))
		return -EPROTO;
	if (want->rails != rails_of(cfg, path) ||
	    (want->imm_version != MPIB_IMM_V1 &&
	     want->imm_version != MPIB_IMM_V2))
		return -ENOTSUP;
	for (unsigned r = 0; r < want->rails; r++) {
		if (want->rail[r].qps < 1 || want->rail[r].qps > MPIB_QPS_MAX)
			return -ENOTSUP;
	}
	return 0;
}

int mpib_lane_create(struct mpib_tenant *tenant, uint8_t imm_version,
		     enum mpib_path path, const struct mpib_lane_info *want,
		     struct mpib_lane **lane)
{
	const struct mpib_engine_config *cfg = &tenant->shard->engine->cfg;
	struct mpib_lane *l;
	int rc = want ? check_want(cfg, path, want) : 0;

	if (rc < 0)
		return rc;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->shard = tenant->shard;
	l->tenant = tenant;
	l->rails = rails_of(cfg, path);
	l->path = (uint8_t)path;
	l->imm_version = want ? want->imm_version : imm_version;
	l->depth = cfg->sq_depth;
	l->failover =
		cfg->failover && l->rails > 1 && (!want || want->failover);
	l->all = l->held = l->open = l->use = (uint8_t)((1u << l->rails) - 1);
	TAILQ_INIT(&l->flows);
	TAILQ_INIT(&l->ready);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		mpib_tracker_init(&l->track[r]);
	l->shard->lanes_made++;
	for (unsigned r = 0; r < l->rails; r++) {
		rc = mpib_lane_make_qps(l, r,
					want ? want->rail[r].qps : cfg->qps[r]);
		if (rc < 0)
			goto err_lane;
	}
	*lane = l;
	return 0;

err_lane:
	mpib_lane_free(l);
	return rc;
}

void mpib_lane_rail_local(const struct mpib_lane *lane, unsigned r,
			  struct mpib_lane_rail_info *out)
{
	struct mpib_rail *rail = &lane->shard->rail[r];
	struct mpib_port_info port = rail->port;

	memset(out, 0, sizeof(*out));
	/* Today's GID: it moves when a link flaps. */
	rail->verbs->query_port(rail->ctx, rail->port_num, &port);
	memcpy(out->gid, port.gid.raw, sizeof(out->gid));
	out->lid = port.lid;
	out->mtu = (uint8_t)port.mtu;
	out->link_layer = port.link_layer;
	out->qps = (uint8_t)lane->qps[r];
	for (unsigned i = 0; i < lane->qps[r]; i++) {
		out->qpn[i] = lane->qp[r][i].qpn;
		out->psn[i] = lane->qp[r][i].psn;
	}
	mpib_ece_offer(lane, r, out);
}

void mpib_lane_local(const struct mpib_lane *lane, struct mpib_lane_info *info)
{
	memset(info, 0, sizeof(*info));
	info->imm_version = lane->imm_version;
	info->mode = lane->shard->engine->cfg.mode;
	info->path = lane->path;
	info->rails = lane->rails;
	info->failover = lane->failover;
	for (unsigned r = 0; r < lane->rails; r++)
		mpib_lane_rail_local(lane, r, &info->rail[r]);
}

static int to_rtr(struct mpib_lane_qp *q, const struct mpib_port_info *port,
		  const struct mpib_lane_rail_info *remote, unsigned i)
{
	struct mpib_rail *rail = &q->lane->shard->rail[q->rail];
	const struct mpib_engine_config *cfg = &q->lane->shard->engine->cfg;
	enum ibv_mtu mtu = (enum ibv_mtu)remote->mtu;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mtu < port->mtu ? mtu : port->mtu,
		.dest_qp_num = remote->qpn[i],
		.rq_psn = remote->psn[i],
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = cfg->min_rnr_timer,
	};

	mpib_ece_take(q, remote, i);
	mpib_route_fill(q->lane, rail, port, remote, &attr.ah_attr);
	return rail->verbs->modify_qp(
		q->qp, &attr,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct mpib_lane_qp *q)
{
	struct mpib_rail *rail = &q->lane->shard->rail[q->rail];
	const struct mpib_engine_config *cfg = &q->lane->shard->engine->cfg;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = cfg->timeout,
		.retry_cnt = cfg->retry_cnt,
		.rnr_retry = cfg->rnr_retry,
		.sq_psn = q->psn,
		.max_rd_atomic = 1,
	};

	return rail->verbs->modify_qp(q->qp, &attr,
				      IBV_QP_STATE | IBV_QP_TIMEOUT |
					      IBV_QP_RETRY_CNT |
					      IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					      IBV_QP_MAX_QP_RD_ATOMIC);
}

void mpib_lane_hold_rail(struct mpib_lane *lane, unsigned r)
{
	struct mpib_rail *rail = &lane->shard->rail[r];

	for (unsigned i = 0; i < lane->qps[r]; i++) {
		struct mpib_lane_qp *q = &lane->qp[r][i];

		HASH_ADD(hh, rail->qps, qpn, sizeof(q->qpn), q);
		rail->n.qps++;
	}
	lane->held |= (uint8_t)(1u << r);
}

void mpib_lane_drop_rail(struct mpib_lane *lane, unsigned r)
{
	struct mpib_rail *rail = &lane->shard->rail[r];

	if (!(lane->held & 1u << r))
		return;
	for (unsigned i = 0; i < lane->qps[r]; i++) {
		mpib_qp_ring(&lane->qp[r][i]);
		HASH_DELETE(hh, rail->qps, &lane->qp[r][i]);
		rail->n.qps--;
	}
	lane->held &= (uint8_t) ~(1u << r);
}

static void on_connect(struct mpib_msg *msg)
{
	struct mpib_lane *lane =
		(struct mpib_lane *)((char *)msg -
				     offsetof(struct mpib_lane, msg));
	struct mpib_shard *s = lane->shard;

	lane->since = s->now;
	mpib_adapt_init(&lane->adapt, s->now);
	TAILQ_INSERT_TAIL(&s->lanes, lane, link);
	lane->held = 0;
	for (unsigned r = 0; r < lane->rails; r++)
		mpib_lane_hold_rail(lane, r);
}

static bool same_shape(const struct mpib_lane *lane,
		       const struct mpib_lane_info *remote)
{
	if (remote->rails != lane->rails ||
	    remote->imm_version != lane->imm_version)
		return false;
	for (unsigned r = 0; r < lane->rails; r++) {
		if (remote->rail[r].qps != lane->qps[r])
			return false;
	}
	return true;
}

static const char *layer_name(uint8_t link_layer)
{
	return link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet"
						     : "InfiniBand";
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
			 "rail %u is %s here and %s there (give both nodes "
			 "rails of one link layer)",
			 r, layer_name(ours), layer_name(theirs));
		return -EPROTO;
	}
	return 0;
}

int mpib_lane_connect_rail(struct mpib_lane *lane, unsigned r,
			   const struct mpib_lane_rail_info *remote)
{
	struct mpib_rail *rail = &lane->shard->rail[r];
	struct mpib_port_info port;
	int rc = rail->verbs->query_port(rail->ctx, rail->port_num, &port);

	for (unsigned i = 0; rc == 0 && i < lane->qps[r]; i++) {
		rc = to_rtr(&lane->qp[r][i], &port, remote, i);
		if (rc == 0)
			rc = to_rts(&lane->qp[r][i]);
	}
	return rc;
}

int mpib_lane_connect(struct mpib_lane *lane,
		      const struct mpib_lane_info *remote, char *why,
		      size_t why_len)
{
	if (!same_shape(lane, remote)) {
		snprintf(why, why_len, "rails or QPs of the two ends differ");
		return -EPROTO;
	}
	if (check_layers(lane, remote, why, why_len) < 0)
		return -EPROTO;
	for (unsigned r = 0; r < lane->rails; r++) {
		int rc = mpib_lane_connect_rail(lane, r, &remote->rail[r]);

		if (rc < 0) {
			mpib_verbs_explain(&lane->shard->engine->cfg.rail[r],
					   rc == -EADDRNOTAVAIL
						   ? "ibv_query_port"
						   : "ibv_modify_qp",
					   rc, why, why_len);
			return rc;
		}
	}
	lane->failover = lane->failover && remote->failover;
	lane->connected = true;
	TAILQ_INSERT_TAIL(&lane->shard->engine->lanes, lane, made_link);
	mpib_mailbox_send(&lane->shard->mailbox, &lane->msg, on_connect);
	return 0;
}

void mpib_lane_set_label(struct mpib_lane *lane, const char *peer)
{
	snprintf(lane->peer, sizeof(lane->peer), "%s", peer);
}

static void on_kill(struct mpib_msg *msg)
{
	struct mpib_call *call = (struct mpib_call *)msg;
	struct mpib_lane *lane = call->what;

	mpib_lane_break(lane, -ECONNRESET, "lane to %s was closed", lane->peer);
	lane->kill = call;
	mpib_lane_drain(lane);
}

void mpib_lane_rail_to_err(struct mpib_lane *lane, unsigned r)
{
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };

	for (unsigned i = 0; i < lane->qps[r]; i++) {
		struct ibv_qp *qp = lane->qp[r][i].qp;

		if (qp)
			lane->shard->rail[r].verbs->modify_qp(qp, &err,
							      IBV_QP_STATE);
	}
}

void mpib_lane_kill(struct mpib_lane *lane, mpib_done_fn *done, void *arg)
{
	struct mpib_call *call = mpib_call_new(lane, done, arg);

	mpib_failover_end(lane);
	for (unsigned r = 0; r < lane->rails; r++)
		mpib_lane_rail_to_err(lane, r);
	mpib_mailbox_send(&lane->shard->mailbox, &call->msg, on_kill);
}

static void on_destroy(struct mpib_msg *msg)
{
	struct mpib_call *call = (struct mpib_call *)msg;
	struct mpib_lane *lane = call->what;
	struct mpib_shard *s = lane->shard;

	if (lane->active)
		TAILQ_REMOVE(&s->active, lane, active_link);
	if (lane->connected) {
		TAILQ_REMOVE(&s->lanes, lane, link);
		for (unsigned r = 0; r < lane->rails; r++)
			mpib_lane_drop_rail(lane, r);
	}
	mpib_call_done(s, call, 0);
}

struct destroy {
	struct mpib_lane *lane;
	mpib_done_fn *done;
	void *arg;
};

static void destroyed(void *arg, int status)
{
	struct destroy *d = arg;

	mpib_lane_free(d->lane);
	d->done(d->arg, status);
	free(d);
}

void mpib_lane_destroy(struct mpib_lane *lane, mpib_done_fn *done, void *arg)
{
	struct destroy *d = mpib_sure_alloc(sizeof(*d));
	struct mpib_call *call;

	*d = (struct destroy){ lane, done, arg };
	call = mpib_call_new(lane, destroyed, d);
	mpib_mailbox_send(&lane->shard->mailbox, &call->msg, on_destroy);
}
