/* SPDX-License-Identifier: Apache-2.0 */
#include "hca.h"

#include <malloc.h>

#include "test.h"

static struct hca_qp *to_qp(struct ibv_qp *qp)
{
	return (struct hca_qp *)qp;
}

static void complete(struct hca *h, const struct ibv_wc *wc)
{
	assert_true(h->wc_head - h->wc_tail < HCA_DEPTH);
	h->wc[h->wc_head++ % HCA_DEPTH] = *wc;
}

static void flush(struct hca_qp *q, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	memset(&wc, 0xa5, sizeof(wc));
	wc.wr_id = wr_id;
	wc.status = status;
	wc.qp_num = q->qp.qp_num;
	/* Let failed sends have the opcode of a receive, and failed receives
	 * that of a send. */
	wc.opcode = wr_id & 1 ? IBV_WC_RECV : IBV_WC_RDMA_WRITE;
	complete(q->hca, &wc);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	struct hca_qp *q = to_qp(qp);

	q->posts++;
	for (; wr; wr = wr->next) {
		struct hca_wr *w = &q->sq[q->sq_head % HCA_DEPTH];

		if (q->fail_post && q->fail_at-- == 0) {
			*bad = wr;
			q->fail_at = 0;
			return q->fail_post;
		}
		assert_true(q->sq_head - q->sq_tail < HCA_DEPTH);
		/* sg_list must be set even without an SGE */
		assert_non_null(wr->sg_list);
		assert_true(wr->num_sge <= 2);
		w->wr = *wr;
		memset(w->sge, 0, sizeof(w->sge));
		for (int i = 0; i < wr->num_sge; i++)
			w->sge[i] = wr->sg_list[i];
		q->sq_head++;
		q->wrs++;
		if (q->err) {
			q->sq_tail++;
			flush(q, wr->wr_id, IBV_WC_WR_FLUSH_ERR);
		}
	}
	return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
		     struct ibv_recv_wr **bad)
{
	struct hca_qp *q = to_qp(qp);

	if (q->fail_recv) {
		*bad = wr;
		return q->fail_recv;
	}
	assert_non_null(wr->sg_list);
	assert_true(q->rq_head - q->rq_tail < HCA_DEPTH);
	if (q->err)
		flush(q, wr->wr_id, IBV_WC_WR_FLUSH_ERR);
	else
		q->rq[q->rq_head++ % HCA_DEPTH] = wr->wr_id;
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct hca *h = (struct hca *)cq->context;
	int got = 0;

	if (h->fail_poll)
		return -1;
	while (got < n && h->wc_tail != h->wc_head)
		wc[got++] = h->wc[h->wc_tail++ % HCA_DEPTH];
	return got;
}

void hca_open(struct hca *h)
{
	memset(h, 0, sizeof(*h));
	/* Let calloc() use mmap() for the rings, so that only the pages that a
	 * test touches are allocated and cleared. */
	mallopt(M_MMAP_THRESHOLD, HCA_DEPTH * 16);
	h->ctx.ops.post_send = post_send;
	h->ctx.ops.post_recv = post_recv;
	h->ctx.ops.poll_cq = poll_cq;
	h->cq.context = &h->ctx;
	h->wc = calloc(HCA_DEPTH, sizeof(*h->wc));
	h->late = calloc(HCA_DEPTH, sizeof(*h->late));
}

void hca_close(struct hca *h)
{
	for (unsigned i = 0; i < h->qps; i++) {
		free(h->qp[i].sq);
		free(h->qp[i].rq);
	}
	free(h->wc);
	free(h->late);
}

struct hca_qp *hca_qp(struct hca *h)
{
	struct hca_qp *q = &h->qp[h->qps];

	assert_true(h->qps < HCA_QPS);
	q->hca = h;
	q->qp.context = &h->ctx;
	q->qp.send_cq = q->qp.recv_cq = &h->cq;
	/* QP numbers are unique only within a device. */
	q->qp.qp_num = 100 + h->qps++;
	q->sq = calloc(HCA_DEPTH, sizeof(*q->sq));
	q->rq = calloc(HCA_DEPTH, sizeof(*q->rq));
	return q;
}

void hca_join(struct hca_qp *a, struct hca_qp *b)
{
	a->peer = b;
	b->peer = a;
}

static void place(const struct hca_wr *w)
{
	uint64_t to = w->wr.wr.rdma.remote_addr;

	for (unsigned i = 0; i < 2 && w->sge[i].length; i++) {
		memcpy((void *)(uintptr_t)to,
		       (const void *)(uintptr_t)w->sge[i].addr,
		       w->sge[i].length);
		to += w->sge[i].length;
	}
}

static void hca_settle(struct hca *h)
{
	for (unsigned i = 0; i < h->lates; i++)
		place(&h->late[i]);
	h->lates = 0;
}

static void receive(struct hca_qp *q, const struct hca_wr *w)
{
	struct ibv_wc wc = {
		.wr_id = q->rq[q->rq_tail++ % HCA_DEPTH],
		.opcode = w->wr.opcode == IBV_WR_SEND
				  ? IBV_WC_RECV
				  : IBV_WC_RECV_RDMA_WITH_IMM,
		.qp_num = q->qp.qp_num,
		.byte_len = w->sge[0].length + w->sge[1].length,
		.imm_data = w->wr.imm_data,
		.wc_flags = w->wr.opcode == IBV_WR_SEND ? 0 : IBV_WC_WITH_IMM,
	};

	complete(q->hca, &wc);
}

bool hca_step(struct hca_qp *q)
{
	struct hca_wr *w = &q->sq[q->sq_tail % HCA_DEPTH];
	struct ibv_wc wc = { .opcode = IBV_WC_RDMA_WRITE,
			     .qp_num = q->qp.qp_num };
	bool wants = w->wr.opcode != IBV_WR_RDMA_WRITE;

	if (q->err || q->sq_tail == q->sq_head)
		return false;
	if (wants && q->peer->rq_tail == q->peer->rq_head)
		return false;
	if (w->wr.opcode == IBV_WR_SEND) {
		/* The data of a SEND is not placed. */
	} else if (q->peer->hca->lazy) {
		q->peer->hca->late[q->peer->hca->lates++] = *w;
	} else {
		place(w);
	}
	if (wants) {
		hca_settle(q->peer->hca);
		receive(q->peer, w);
	}
	wc.wr_id = w->wr.wr_id;
	q->sq_tail++;
	if (w->wr.send_flags & IBV_SEND_SIGNALED)
		complete(q->hca, &wc);
	return true;
}

unsigned hca_run(struct hca *h, unsigned *seed, unsigned n)
{
	unsigned did = 0, idle = 0;

	while (did < n && idle < 4 * h->qps) {
		unsigned i = (unsigned)rand_r(seed) % h->qps;

		if (hca_step(&h->qp[i])) {
			did++;
			idle = 0;
		} else {
			idle++;
		}
	}
	/* If none of the drawn QPs could execute a WR, try every QP. */
	for (unsigned i = 0; did == 0 && i < h->qps; i++)
		did += hca_step(&h->qp[i]);
	return did;
}

void hca_break(struct hca_qp *q)
{
	bool first = true;

	q->err = true;
	while (q->sq_tail != q->sq_head) {
		flush(q, q->sq[q->sq_tail++ % HCA_DEPTH].wr.wr_id,
		      first ? IBV_WC_RETRY_EXC_ERR : IBV_WC_WR_FLUSH_ERR);
		first = false;
	}
	while (q->rq_tail != q->rq_head)
		flush(q, q->rq[q->rq_tail++ % HCA_DEPTH], IBV_WC_WR_FLUSH_ERR);
}

void hca_forge(struct hca *h, const struct ibv_wc *wc)
{
	complete(h, wc);
}
