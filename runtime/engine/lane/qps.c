/* SPDX-License-Identifier: Apache-2.0 */
/* The QPs of a lane. The control thread creates them, describes them to the
 * peer, connects them with route and ECE, and moves them to ERR. While the
 * shard thread holds the QPs, it posts to them, probes them, and waits for
 * their last WRs. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "engine/lane/lane.h"
#include "engine/lane/spread.h"
#include "verbs/verbs.h"

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
	int rc;

	memset(q, 0, sizeof(*q));
	q->lane = lane;
	q->rail = (uint8_t)r;
	/* Use a random PSN, so that a late packet for an older QP cannot
	 * match. */
	if (getrandom(&q->psn, sizeof(q->psn), 0) != sizeof(q->psn))
		return -EIO;
	q->psn &= 0xffffff;
	rc = mpib_budget_promise_qp(&rail->budget, lane->tenant->uid);
	if (rc < 0)
		return mpib_last_error_crowded(lane->shard, r, "another QP");
	q->promised = true;
	lane->tenant->qps[r]++;
	rc = rail->verbs->create_qp(lane->tenant->pd[r], &init, &q->qp);
	if (rc < 0)
		return mpib_last_error(lane->shard, r, "ibv_create_qp", rc);
	q->qpn = q->qp->qp_num;
	rc = mpib_qp_init(rail->verbs, q->qp, rail->port_num,
			  (uint16_t)lane->shard->engine->cfg.pkey_index,
			  IBV_ACCESS_REMOTE_WRITE);
	return mpib_last_error(lane->shard, r, "ibv_modify_qp", rc);
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
		if (!q->promised)
			continue;
		mpib_budget_release_qp(&lane->shard->rail[rail].budget);
		mpib_sum_less(&lane->tenant->qps[rail]);
		q->promised = false;
	}
}

/*
 * Enhanced connection establishment (ECE): vendor options of a QP, such as
 * congestion control, that both ends must share. The lane's opener offers the
 * options of its QPs. The acceptor sets the offered options before RTR. After
 * RTR the acceptor reads the options of its own QPs and sends them in its
 * answer. The opener then sets the options from the answer. If one end has no
 * ECE, neither end sets options. QPs of the software HCA identify each other by
 * ECE, so they set it even if qp.ece is off. Control thread.
 */

static bool ece_wanted(const struct mpib_shard *s, unsigned rail)
{
	return s->engine->cfg.ece || s->rail[rail].verbs->ece_proves;
}

/* Write the ECE of this end's QPs of a rail to `info`. */
static void ece_offer(const struct mpib_lane *lane, unsigned rail,
		      struct mpib_lane_rail_info *info)
{
	const struct mpib_verbs *v = lane->shard->rail[rail].verbs;

	info->ece = ece_wanted(lane->shard, rail);
	for (unsigned i = 0; info->ece && i < lane->qps[rail]; i++) {
		const struct mpib_lane_qp *q = &lane->qp[rail][i];
		struct ibv_ece ece = { 0 };

		if (!q->qp || q->no_ece || v->query_ece(q->qp, &ece) < 0) {
			info->ece = false;
			return;
		}
		info->ece_vendor[i] = ece.vendor_id;
		info->ece_options[i] = ece.options;
	}
}

/* Before RTR, set the ECE of q to the ECE that the peer sent for the QP with
 * the same index. */
static void ece_take(struct mpib_lane_qp *q,
		     const struct mpib_lane_rail_info *remote, unsigned i)
{
	const struct mpib_shard *s = q->lane->shard;
	struct ibv_ece ece = { .vendor_id = remote->ece_vendor[i],
			       .options = remote->ece_options[i] };
	int rc;

	q->no_ece = true;
	if (!ece_wanted(s, q->rail) || !remote->ece)
		return;
	rc = s->rail[q->rail].verbs->set_ece(q->qp, &ece);
	q->no_ece = rc < 0;
	/* The options may come from another vendor's device, so continue
	 * without ECE. */
	if (rc < 0)
		mpib_debug("rail %u: QP 0x%x uses no ECE: %s", q->rail, q->qpn,
			   strerror(-rc));
}

void mpib_lane_rail_local(const struct mpib_lane *lane, unsigned r,
			  struct mpib_lane_rail_info *out)
{
	struct mpib_rail *rail = &lane->shard->rail[r];
	struct mpib_port_info port = rail->port;

	memset(out, 0, sizeof(*out));
	/* Query the port now, because its GID may have changed since the link
	 * went down. */
	if (rail->ctx)
		rail->verbs->query_port(rail->ctx, rail->port_num, &port);
	memcpy(out->gid, port.gid.raw, sizeof(out->gid));
	out->lid = port.lid;
	out->mtu = (uint8_t)port.mtu;
	out->max_msg_sz = port.max_msg_sz;
	out->link_layer = port.link_layer;
	out->qps = (uint8_t)lane->qps[r];
	for (unsigned i = 0; i < lane->qps[r]; i++) {
		out->qpn[i] = lane->qp[r][i].qpn;
		out->psn[i] = lane->qp[r][i].psn;
	}
	ece_offer(lane, r, out);
}

static int start_qp(struct mpib_lane_qp *q, const struct mpib_port_info *port,
		    const struct mpib_lane_rail_info *remote, unsigned i)
{
	struct mpib_rail *rail = &q->lane->shard->rail[q->rail];
	const struct mpib_engine_config *cfg = &q->lane->shard->engine->cfg;
	enum ibv_mtu mtu = (enum ibv_mtu)remote->mtu;
	struct ibv_qp_attr attr = {
		.path_mtu = mtu < port->mtu ? mtu : port->mtu,
		.dest_qp_num = remote->qpn[i],
		.rq_psn = remote->psn[i],
		.sq_psn = q->psn,
		.timeout = cfg->timeout,
		.retry_cnt = cfg->retry_cnt,
	};

	ece_take(q, remote, i);
	mpib_route_fill(q->lane, rail, port, remote, &attr.ah_attr);
	return mpib_qp_connect(rail->verbs, q->qp, &attr);
}

/* Lower msg_most to the limit of this rail. msg_most is never raised again,
 * because WRs in flight may be replayed on the rail. */
static void lower_msg_most(struct mpib_lane *lane, unsigned r)
{
	uint32_t ar_above = lane->shard->ar_above;

	if (lane->msg_most > lane->rail_msg[r])
		lane->msg_most = lane->rail_msg[r] & ~(MPIB_ALIGN - 1);
	lane->plain_most =
		ar_above < lane->msg_most ? ar_above : lane->msg_most;
}

static void hold_rail(struct mpib_lane *lane, unsigned r)
{
	struct mpib_rail *rail = &lane->shard->rail[r];

	lower_msg_most(lane, r);

	for (unsigned i = 0; i < lane->qps[r]; i++) {
		struct mpib_lane_qp *q = &lane->qp[r][i];

		/* clear the value that an earlier use of the QP left */
		q->refused = 0;
		HASH_ADD(hh, rail->qps, qpn, sizeof(q->qpn), q);
		rail->n.qps++;
	}
}

static void drop_rail(struct mpib_lane *lane, unsigned r)
{
	struct mpib_rail *rail = &lane->shard->rail[r];

	mpib_spread_reset(lane, r);
	for (unsigned i = 0; i < lane->qps[r]; i++) {
		struct mpib_lane_qp *q = &lane->qp[r][i];
		struct mpib_lane_qp **recent =
			&rail->recent[q->qpn % MPIB_RECENT_QPS];

		mpib_qp_ring(q);
		/* A lost device produces no completions, so count its WRs as
		 * done. */
		mpib_budget_sent(&rail->budget, mpib_qp_outstanding(q));
		q->retired = q->posted;
		HASH_DELETE(hh, rail->qps, q);
		if (*recent == q)
			*recent = NULL;
		rail->n.qps--;
	}
}

void mpib_lane_reckon(struct mpib_lane *lane)
{
	uint8_t live = 0, use;

	for (unsigned r = 0; r < lane->rails; r++) {
		if (lane->rail[r].state == MPIB_RAIL_LIVE)
			live |= mpib_rail_bit(r);
	}
	lane->open = lane->broken ? 0 : live;
	/* If all live rails are drained, use all of them for new traffic. */
	use = live & (uint8_t)~lane->drain;
	use = use ? use : live;
	if (use != lane->use)
		lane->use_since = lane->shard->now;
	lane->use = use;
}

void mpib_rail_enter(struct mpib_lane *lane, unsigned rail,
		     enum mpib_lane_rail_state state)
{
	enum mpib_lane_rail_state *now = &lane->rail[rail].state;

	if (*now == MPIB_RAIL_DOWN && state != MPIB_RAIL_DOWN)
		hold_rail(lane, rail);
	else if (*now != MPIB_RAIL_DOWN && state == MPIB_RAIL_DOWN)
		drop_rail(lane, rail);
	*now = state;
	mpib_lane_reckon(lane);
}

bool mpib_lane_fencing(const struct mpib_lane *lane)
{
	for (unsigned r = 0; r < lane->rails; r++) {
		if (lane->rail[r].state == MPIB_RAIL_STOPPING ||
		    lane->rail[r].state == MPIB_RAIL_STOPPED)
			return true;
	}
	return false;
}

/* Return whether no WR of the rail can complete any more. */
static bool is_silent(const struct mpib_lane *lane, unsigned rail)
{
	return lane->rail[rail].state == MPIB_RAIL_DOWN ||
	       lane->shard->rail[rail].lost;
}

int mpib_lane_connect_rail(struct mpib_lane *lane, unsigned r,
			   const struct mpib_lane_rail_info *remote)
{
	struct mpib_rail *rail = &lane->shard->rail[r];
	struct mpib_port_info port;
	int rc = rail->verbs->query_port(rail->ctx, rail->port_num, &port);

	if (rc == 0)
		lane->rail_msg[r] = port.max_msg_sz < remote->max_msg_sz
					    ? port.max_msg_sz
					    : remote->max_msg_sz;
	for (unsigned i = 0; rc == 0 && i < lane->qps[r]; i++)
		rc = start_qp(&lane->qp[r][i], &port, remote, i);
	return rc;
}

void mpib_lane_rail_to_err(struct mpib_lane *lane, unsigned r)
{
	const struct mpib_verbs *verbs = lane->shard->rail[r].verbs;
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };

	for (unsigned i = 0; i < lane->qps[r]; i++) {
		struct ibv_qp *qp = lane->qp[r][i].qp;

		/* Skip a QP that is still in RESET after a failed start. Such a
		 * QP carries nothing, and verbs do not allow a transition from
		 * RESET to ERR. */
		if (!qp || qp->state == IBV_QPS_RESET)
			continue;
		/* If the call fails, data may still arrive through the QP, so
		 * treat the rail as lost. */
		if (verbs->modify_qp(qp, &err, IBV_QP_STATE) < 0)
			mpib_rail_lose(lane->shard, r,
				       "its QPs cannot be put into ERR");
	}
}

bool mpib_qp_probe(struct mpib_lane_qp *q)
{
	struct mpib_shard *s = q->lane->shard;
	bool waits = (int32_t)(q->asked - q->retired) > 0;
	struct mpib_wr *w;

	if (!s->wrs.left || mpib_budget_is_full(&s->rail[q->rail].budget) ||
	    !(waits ? mpib_qp_fits(q, q->rail, 1)
		    : mpib_qp_outstanding(q) < q->lane->depth))
		return false;
	w = mpib_qp_write(q, mpib_wr_tag(MPIB_WR_PROBE, 0, 0));
	w->wr.send_flags = IBV_SEND_SIGNALED;
	mpib_qp_add(q, w);
	return true;
}

/* Post the last WR. The QP is in ERR and flushes WRs in order, so this WR's
 * completion is the last one. */
static bool post_last(struct mpib_lane_qp *q)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = mpib_wr_tag(MPIB_WR_LAST, 0, 0),
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct mpib_budget *budget = &q->lane->shard->rail[q->rail].budget;

	if (q->last)
		return true; /* the QP already has its last WR */
	mpib_qp_ring(q); /* first post the queued WRs */
	if (mpib_budget_is_full(budget))
		return false;
	wr.wr_id |= (q->posted + 1) & 0xffffff;
	if (ibv_post_send(q->qp, &wr, &bad) == 0) {
		q->posted++;
		q->last = true;
		mpib_budget_send(budget, 1);
	}
	return q->last;
}

bool mpib_rail_post_last(struct mpib_lane *lane, unsigned rail)
{
	bool posted = true;

	if (is_silent(lane, rail))
		return true;
	for (unsigned i = 0; i < lane->qps[rail]; i++)
		posted = post_last(&lane->qp[rail][i]) && posted;
	return posted;
}

bool mpib_rail_stopped(const struct mpib_lane *lane, unsigned rail)
{
	if (is_silent(lane, rail))
		return true;
	for (unsigned i = 0; i < lane->qps[rail]; i++) {
		if (lane->qp[rail][i].posted != lane->qp[rail][i].retired)
			return false;
	}
	return true;
}

void mpib_lane_stop(struct mpib_lane *lane)
{
	bool posted = true;

	for (unsigned r = 0; r < lane->rails; r++)
		posted = mpib_rail_post_last(lane, r) && posted;
	if (!posted)
		/* Poll, because completions may free entries of the send
		 * queues. */
		mpib_cq_poll_all(lane->shard);
	mpib_lane_check_stopped(lane);
}

void mpib_lane_check_stopped(struct mpib_lane *lane)
{
	struct mpib_call *kill = lane->kill;

	if (!kill)
		return;
	for (unsigned r = 0; r < lane->rails; r++) {
		if (mpib_rail_stopped(lane, r))
			continue;
		mpib_rail_post_last(lane, r);
		return;
	}
	lane->kill = NULL;
	mpib_call_done(lane->shard, kill, 0);
}

/*
 * The route of a lane's packets from a local port to the peer's port: service
 * level, traffic class and GRH of the address vector. Control thread.
 */

/* Return the configured service level. If none is configured, the value on
 * InfiniBand is the communicator's traffic class if that is at most 15. In all
 * other cases it is 0. */
static uint8_t service_level(const struct mpib_lane *lane,
			     const struct mpib_port_info *port)
{
	int level = lane->shard->engine->cfg.service_level;

	if (level >= 0)
		return (uint8_t)level;
	if (port->link_layer == IBV_LINK_LAYER_ETHERNET ||
	    lane->traffic_class > 15)
		return 0;
	return lane->traffic_class;
}

static uint8_t traffic_class(const struct mpib_lane *lane)
{
	int class = lane->shard->engine->cfg.traffic_class;

	if (lane->traffic_class)
		return lane->traffic_class;
	return class < 0 ? 0 : (uint8_t) class;
}

/* Compare subnets. The prefix of an InfiniBand GID has three parts. The first 4
 * bytes are equal on a fabric. The next 2 bytes are the FLID, the LID that
 * routers use for a port. The last 2 bytes identify the subnet. */
static bool same_subnet(const struct mpib_port_info *port,
			const struct mpib_lane_rail_info *remote)
{
	return memcmp(port->gid.raw, remote->gid, 4) == 0 &&
	       memcmp(port->gid.raw + 6, remote->gid + 6, 2) == 0;
}

/* Return whether packets need a GRH. RoCE always needs one. InfiniBand packets
 * need a GRH if the port requires it, if there is no LID, or to reach another
 * subnet through a router. */
static bool needs_grh(const struct mpib_port_info *port,
		      const struct mpib_lane_rail_info *remote)
{
	return port->link_layer == IBV_LINK_LAYER_ETHERNET ||
	       port->grh_required || remote->lid == 0 ||
	       !same_subnet(port, remote);
}

/* Return the LID for packets. For another subnet this is the FLID, if the port
 * has one. */
static uint16_t route_lid(const struct mpib_port_info *port,
			  const struct mpib_lane_rail_info *remote)
{
	uint16_t flid = (uint16_t)(remote->gid[4] << 8 | remote->gid[5]);

	return port->link_layer == IBV_LINK_LAYER_ETHERNET ||
			       same_subnet(port, remote) || flid == 0
		       ? remote->lid
		       : flid;
}

void mpib_route_fill(const struct mpib_lane *lane, const struct mpib_rail *rail,
		     const struct mpib_port_info *port,
		     const struct mpib_lane_rail_info *remote,
		     struct ibv_ah_attr *ah)
{
	*ah = (struct ibv_ah_attr){
		.dlid = route_lid(port, remote),
		.sl = service_level(lane, port),
		.port_num = rail->port_num,
		.is_global = needs_grh(port, remote),
		.grh = { .sgid_index = port->gid_index,
			 .hop_limit = 255,
			 .traffic_class = traffic_class(lane) },
	};
	memcpy(ah->grh.dgid.raw, remote->gid, sizeof(remote->gid));
}

void mpib_lane_set_class(struct mpib_lane *lane, uint8_t traffic_class)
{
	lane->traffic_class = traffic_class;
}

/* Posting. All WRs of a turn for a QP, from any connection, form one chain of
 * pooled WRs. The chain is posted with one doorbell at the end of the turn. The
 * data of inline WRs stays in the connections' tables and is copied at the
 * doorbell, so it must not change before the doorbell. Shard thread. */

/* Record that ibv_post_send() accepted the WRs before `bad` and refused the
 * rest. mpib_lanes_refused() in recovery/stop.c handles the error after all
 * doorbells of the turn, because it may break connections. */
static void doorbell_refused(struct mpib_lane_qp *q, struct mpib_wr *first,
			     uint32_t n, const struct mpib_wr *bad, int error)
{
	uint32_t taken = 0;

	for (const struct ibv_send_wr *wr = &first->wr; wr && wr != &bad->wr;
	     wr = wr->next)
		taken++;
	q->posted -= n - taken;
	mpib_budget_sent(&q->lane->shard->rail[q->rail].budget, n - taken);
	q->refused = error;
	q->lane->shard->refused = true;
}

/* Post the chain of a QP that was removed from the shard's list. */
static inline void qp_post_chain(struct mpib_shard *s, struct mpib_lane_qp *q)
{
	struct mpib_wr *first = q->chain.first, *bad;
	uint32_t n = q->chain.n;
	struct ibv_send_wr *wr, *next;
	int rc;

	if (!q->lane->watched) {
		q->lane->watched = true;
		LIST_INSERT_HEAD(&s->watched, q->lane, watch_link);
	}
	rc = mpib_wr_chain_post(&q->chain, q->qp, &bad);
	s->rail[q->rail].n.posts++;
	if (rc < 0)
		doorbell_refused(q, first, n, bad, rc);
	/* Return the WRs to the pool, because the device has copied them. */
	for (wr = &first->wr; wr; wr = next) {
		next = wr->next;
		/* The virtual QP owns its WRs until their completion. */
		if (!((struct mpib_wr *)wr)->kind)
			mpib_wr_give(&s->wrs, (struct mpib_wr *)wr);
	}
}

void mpib_qp_ring(struct mpib_lane_qp *q)
{
	struct mpib_shard *s;

	/* If nothing is queued, the QP may not exist yet, and q->lane may be
	 * NULL. */
	if (!q->chain.n)
		return;
	s = q->lane->shard;
	SLIST_REMOVE(&s->dirty, q, mpib_lane_qp, ring_link);
	qp_post_chain(s, q);
}

void mpib_qp_flush(struct mpib_shard *s)
{
	struct mpib_lane_qp *q;

	while ((q = SLIST_FIRST(&s->dirty))) {
		SLIST_REMOVE_HEAD(&s->dirty, ring_link);
		qp_post_chain(s, q);
	}
	if (s->refused)
		mpib_lanes_refused(s);
}

struct mpib_wr *mpib_qp_write(struct mpib_lane_qp *q, uint64_t wr_id)
{
	struct mpib_wr *w = mpib_wr_take(&q->lane->shard->wrs);

	w->wr.wr_id = wr_id;
	w->wr.num_sge = 0;
	w->wr.opcode = IBV_WR_RDMA_WRITE;
	w->wr.send_flags = 0;
	w->wr.wr.rdma.remote_addr = 0;
	w->wr.wr.rdma.rkey = 0;
	return w;
}
