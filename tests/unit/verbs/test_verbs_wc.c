/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of a completion for every kind of request and every result. */
#include "vt.h"

#include <arpa/inet.h>

static const struct kind {
	enum ibv_wr_opcode wr;
	enum ibv_wc_opcode wc;
	bool received; /* whether the request consumes a receive of the peer */
} kinds[] = {
	{ IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE, false },
	{ IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE, true },
	{ IBV_WR_SEND, IBV_WC_SEND, true },
	{ IBV_WR_SEND_WITH_IMM, IBV_WC_SEND, true },
	{ IBV_WR_RDMA_READ, IBV_WC_RDMA_READ, false },
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))
#define LEN 3000

struct fixture {
	struct vt_mem src, dst;
	struct ibv_qp *qa, *qb;
};

static void begin(struct vt *t, struct fixture *f)
{
	f->src = vt_mem(t, &t->a, 8192, VT_LOCAL);
	f->dst = vt_mem(t, &t->b, 8192, VT_ALL);
	vt_fill(f->src.p, LEN, 2);
	vt_pair(t, &vt_usual, &f->qa, &f->qb);
}

static int post(struct fixture *f, const struct kind *k, uint64_t id,
		unsigned flags, uint32_t rkey)
{
	struct ibv_sge sge = vt_sge(&f->src, 0, LEN);
	struct ibv_send_wr *bad, wr = {
		.wr_id = id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = k->wr,
		.send_flags = flags,
		.imm_data = htonl(77),
		.wr.rdma = { .remote_addr = vt_addr(&f->dst), .rkey = rkey },
	};

	return ibv_post_send(f->qa, &wr, &bad);
}

static bool has_imm(const struct kind *k)
{
	return k->wr == IBV_WR_RDMA_WRITE_WITH_IMM ||
	       k->wr == IBV_WR_SEND_WITH_IMM;
}

static void check_receive(struct vt *t, struct fixture *f, const struct kind *k)
{
	struct ibv_wc wc =
		vt_expect(t, &t->b.recv, 0xfeed0000beef1234, IBV_WC_SUCCESS);

	assert_int_equal(wc.opcode, k->wr == IBV_WR_RDMA_WRITE_WITH_IMM
					    ? IBV_WC_RECV_RDMA_WITH_IMM
					    : IBV_WC_RECV);
	assert_int_equal(wc.byte_len, LEN);
	assert_int_equal(wc.qp_num, f->qb->qp_num);
	assert_int_equal(!!(wc.wc_flags & IBV_WC_WITH_IMM), has_imm(k));
	if (has_imm(k))
		assert_int_equal(ntohl(wc.imm_data), 77);
}

vt_test(every_request_moves_its_bytes_and_has_its_opcode)
{
	struct fixture f;

	begin(t, &f);
	for (unsigned i = 0; i < KINDS; i++) {
		const struct kind *k = &kinds[i];
		struct ibv_sge out = vt_sge(&f.dst, 0, 8192);
		struct ibv_wc wc;

		memset(f.dst.p, 0, LEN);
		if (k->received)
			assert_int_equal(
				vt_recv(f.qb, 0xfeed0000beef1234, &out, 1), 0);
		assert_int_equal(post(&f, k, UINT64_MAX - i, IBV_SEND_SIGNALED,
				      f.dst.mr->rkey),
				 0);
		wc = vt_expect(t, &t->a.send, UINT64_MAX - i, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, k->wc);
		assert_int_equal(wc.qp_num, f.qa->qp_num);
		if (k->received)
			check_receive(t, &f, k);
		else
			vt_quiet(t, &t->b.recv, 20);
		/* A READ copies the zeros of `dst`. */
		assert_memory_equal(f.dst.p, f.src.p, LEN);
	}
}

vt_test(a_failed_unsignalled_request_has_a_completion)
{
	for (unsigned i = 0; i < KINDS; i++) {
		struct fixture f;
		struct ibv_wc wc;

		if (kinds[i].wr == IBV_WR_SEND ||
		    kinds[i].wr == IBV_WR_SEND_WITH_IMM)
			continue;
		begin(t, &f);
		assert_int_equal(vt_recv(f.qb, 40, NULL, 0), 0);
		assert_int_equal(post(&f, &kinds[i], 30 + i, 0,
				      f.dst.mr->rkey ^ 0x55500),
				 0);
		wc = vt_expect(t, &t->a.send, 30 + i, IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(wc.qp_num, f.qa->qp_num);
		vt_refused(t, f.qb, IBV_EVENT_QP_ACCESS_ERR);
		/* The refused request must not use up the receive. Only rxe
		 * uses it. */
		wc = vt_expect(t, &t->b.recv, 40,
			       t->rxe && kinds[i].received
				       ? IBV_WC_REM_ACCESS_ERR
				       : IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(wc.qp_num, f.qb->qp_num);
	}
}

vt_test(every_request_is_flushed_with_its_own_id)
{
	struct fixture f;

	begin(t, &f);
	assert_int_equal(vt_to(t, f.qa, IBV_QPS_ERR), 0);
	for (unsigned i = 0; i < KINDS; i++)
		assert_int_equal(
			post(&f, &kinds[i], 1ull << 40 | i, 0, f.dst.mr->rkey),
			0);
	for (unsigned i = 0; i < KINDS; i++) {
		struct ibv_wc wc = vt_expect(t, &t->a.send, 1ull << 40 | i,
					     IBV_WC_WR_FLUSH_ERR);

		assert_int_equal(wc.qp_num, f.qa->qp_num);
	}
	vt_quiet(t, &t->a.send, 10);
}

vt_test(a_too_small_receive_of_an_srq_is_used_up)
{
	struct vt_opt o = vt_usual, plain = vt_usual;
	struct fixture f;
	struct ibv_sge out;
	struct ibv_wc wc;

	begin(t, &f);
	vt_destroy(t, f.qa, f.qb);
	o.srq = vt_srq(t, &t->b, 16);
	f.qb = vt_qp(t, &t->b, &o);
	f.qa = vt_qp(t, &t->a, &plain);
	vt_connect(t, f.qa, f.qb, &o);
	out = vt_sge(&f.dst, 0, LEN - 1);
	assert_int_equal(vt_srq_recv(o.srq, 5, &out, 1), 0);
	assert_int_equal(vt_srq_recv(o.srq, 6, &out, 1), 0);
	assert_int_equal(post(&f, &kinds[2], 1, IBV_SEND_SIGNALED, 0), 0);
	wc = vt_wait(t, &t->b.recv);
	assert_int_equal(wc.wr_id, 5);
	assert_int_equal(wc.qp_num, f.qb->qp_num);
	assert_int_equal(wc.status,
			 t->rxe ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_LEN_ERR);
	assert_int_not_equal(vt_wait(t, &t->a.send).status, IBV_WC_SUCCESS);
	/* The second receive must stay in the queue. */
	vt_quiet(t, &t->b.recv, 20);
}

vt_test(inline_data_may_be_as_long_as_was_granted)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint8_t raw[4096];
	struct ibv_sge sge[2];
	struct fixture f;
	uint32_t limit;

	begin(t, &f);
	assert_int_equal(t->v->query_qp(f.qa, &attr, IBV_QP_CAP, &init), 0);
	limit = init.cap.max_inline_data;
	assert_in_range(limit, vt_usual.inline_data, sizeof(raw));
	vt_fill(raw, limit, 8);
	sge[0] = (struct ibv_sge){ .addr = (uintptr_t)raw, .length = 13 };
	sge[1] = (struct ibv_sge){ .addr = (uintptr_t)raw + 13,
				   .length = limit - 13 };
	assert_int_equal(vt_rdma(f.qa, IBV_WR_RDMA_WRITE, 3,
				 IBV_SEND_SIGNALED | IBV_SEND_INLINE, sge, 2,
				 vt_addr(&f.dst) + 1, f.dst.mr->rkey),
			 0);
	vt_expect(t, &t->a.send, 3, IBV_WC_SUCCESS);
	assert_memory_equal(f.dst.p + 1, raw, limit);
	assert_int_equal(f.dst.p[limit + 1], 0);
}
