/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posting. All WRs that a turn has for a QP, of any connection, are one chain
 * of pooled WRs and go out with one doorbell at the end of the turn. Only then
 * are the bytes of inline WRs read: they lie in the connections' tables and
 * must not change before. Shard thread.
 */
#include "engine/lane/lane.h"

/* ibv_post_send() took the WRs before bad and refused the rest. Only note that:
 * mpib_lanes_refused() in recovery/break.c, which may break connections, acts
 * on the error when all doorbells of the turn are through. */
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

/* Post the chain of a QP that is not on the shard's list any more. */
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
	/* The device has copied the WRs, so they go back to the pool. */
	for (wr = &first->wr; wr; wr = next) {
		next = wr->next;
		/* The virtual QP keeps its WRs until their completion. */
		if (!((struct mpib_wr *)wr)->kind)
			mpib_wr_give(&s->wrs, (struct mpib_wr *)wr);
	}
}

void mpib_qp_ring(struct mpib_lane_qp *q)
{
	struct mpib_shard *s;

	/* Nothing is queued; the QP may not exist yet, q->lane may be NULL. */
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
	if (__builtin_expect(s->refused, 0))
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
