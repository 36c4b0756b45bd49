/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The QPs of a lane on the shard thread: probing, and the last WR of those in ERR.
 */
#include "engine/lane/lane.h"

bool mpib_qp_probe(struct mpib_lane_qp *q)
{
	bool waits = (int32_t)(q->asked - q->retired) > 0;
	struct mpib_wr *w;

	if (!q->lane->shard->wrs.left ||
	    (waits ? mpib_qp_room(q) : mpib_qp_sq_room(q)) == 0)
		return false;
	w = mpib_qp_write(q, mpib_wr_tag(MPIB_WR_PROBE, 0, 0));
	w->wr.send_flags = IBV_SEND_SIGNALED;
	mpib_qp_add(q, w);
	return true;
}

/* The QP is in ERR: WRs are flushed in order, so the completion of a WR posted
 * now comes last. */
static bool post_last(struct mpib_lane_qp *q)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = mpib_wr_tag(MPIB_WR_LAST, 0, 0),
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (q->last)
		return true; /* nothing was posted since */
	mpib_qp_ring(q); /* queued WRs go ahead of the last one */
	wr.wr_id |= (q->posted + 1) & 0xffffff;
	if (ibv_post_send(q->qp, &wr, &bad) == 0) {
		q->posted++;
		q->last = true;
		mpib_budget_send(&q->lane->shard->rail[q->rail].budget, 1);
	}
	return q->last;
}

bool mpib_rail_post_last(struct mpib_lane *lane, unsigned rail)
{
	bool posted = true;

	if (!(lane->held & mpib_rail_bit(rail)) || lane->shard->rail[rail].lost)
		return true;
	for (unsigned i = 0; i < lane->qps[rail]; i++)
		posted = post_last(&lane->qp[rail][i]) && posted;
	return posted;
}

bool mpib_rail_stopped(const struct mpib_lane *lane, unsigned rail)
{
	if (!(lane->held & mpib_rail_bit(rail)) || lane->shard->rail[rail].lost)
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
		mpib_cq_poll_all(lane->shard); /* the queue may be full */
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
