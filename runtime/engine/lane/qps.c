/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The QPs of one rail of a lane: making them, describing them for the peer,
 * connecting them, putting them into ERR. Control thread, but for
 * mpib_lane_hold_rail() and mpib_lane_drop_rail(), which the shard calls.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "engine/lane/spread.h"
#include "verbs/connect.h"

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
	/* Random, so that a late packet for an older QP cannot match. */
	if (getrandom(&q->psn, sizeof(q->psn), 0) != sizeof(q->psn))
		return -EIO;
	q->psn &= 0xffffff;
	rc = mpib_budget_promise(&rail->budget, lane->tenant->uid,
				 MPIB_BUDGET_PER_QP);
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
		mpib_budget_release(&lane->shard->rail[rail].budget,
				    MPIB_BUDGET_PER_QP);
		mpib_sum_less(&lane->tenant->qps[rail]);
		q->promised = false;
	}
}

void mpib_lane_rail_local(const struct mpib_lane *lane, unsigned r,
			  struct mpib_lane_rail_info *out)
{
	struct mpib_rail *rail = &lane->shard->rail[r];
	struct mpib_port_info port = rail->port;

	memset(out, 0, sizeof(*out));
	/* Ask the port now: its GID may change when the link flaps. */
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
	mpib_ece_offer(lane, r, out);
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
		.min_rnr_timer = cfg->min_rnr_timer,
		.timeout = cfg->timeout,
		.retry_cnt = cfg->retry_cnt,
		.rnr_retry = cfg->rnr_retry,
	};

	mpib_ece_take(q, remote, i);
	mpib_route_fill(q->lane, rail, port, remote, &attr.ah_attr);
	return mpib_qp_connect(rail->verbs, q->qp, &attr);
}

/* Never more again: what is in flight may be replayed on the rail. */
static void lower_msg_most(struct mpib_lane *lane, unsigned r)
{
	uint32_t ar_above = lane->shard->ar_above;

	if (lane->msg_most > lane->rail_msg[r])
		lane->msg_most = lane->rail_msg[r] & ~(MPIB_ALIGN - 1);
	lane->plain_most =
		ar_above < lane->msg_most ? ar_above : lane->msg_most;
}

void mpib_lane_hold_rail(struct mpib_lane *lane, unsigned r)
{
	struct mpib_rail *rail = &lane->shard->rail[r];

	lower_msg_most(lane, r);

	for (unsigned i = 0; i < lane->qps[r]; i++) {
		struct mpib_lane_qp *q = &lane->qp[r][i];

		q->refused = 0; /* of the QP's use before this one */
		HASH_ADD(hh, rail->qps, qpn, sizeof(q->qpn), q);
		rail->n.qps++;
	}
	lane->held |= mpib_rail_bit(r);
}

void mpib_lane_drop_rail(struct mpib_lane *lane, unsigned r)
{
	struct mpib_rail *rail = &lane->shard->rail[r];

	if (!(lane->held & mpib_rail_bit(r)))
		return;
	mpib_spread_reset(lane, r);
	for (unsigned i = 0; i < lane->qps[r]; i++) {
		struct mpib_lane_qp *q = &lane->qp[r][i];
		struct mpib_lane_qp **recent =
			&rail->recent[q->qpn % MPIB_RECENT_QPS];

		mpib_qp_ring(q);
		/* A lost device gives no completions: count its WRs as done. */
		mpib_budget_sent(&rail->budget, mpib_qp_outstanding(q));
		q->retired = q->posted;
		HASH_DELETE(hh, rail->qps, q);
		if (*recent == q)
			*recent = NULL;
		rail->n.qps--;
	}
	lane->held &= (uint8_t)~mpib_rail_bit(r);
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
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };

	for (unsigned i = 0; i < lane->qps[r]; i++) {
		struct ibv_qp *qp = lane->qp[r][i].qp;

		if (qp)
			lane->shard->rail[r].verbs->modify_qp(qp, &err,
							      IBV_QP_STATE);
	}
}
