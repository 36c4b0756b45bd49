/* SPDX-License-Identifier: Apache-2.0 */
/* RDMA WRITE with and without immediate data: placement, sizes, and
 * completions. */
#include "vt.h"

#include <arpa/inet.h>

vt_pair_test(a_write_with_imm_reports_its_length_and_imm)
{
	static const size_t sizes[] = { 0, 1, 31, 4064, 4065, 65536, 1 << 20 };
	struct vt_mem src = vt_mem(t, &t->a, 1 << 20, VT_LOCAL);
	struct vt_mem dst = vt_mem(t, &t->b, 1 << 20, VT_ALL);

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct ibv_sge sge = vt_sge(&src, 0, sizes[i]);
		struct ibv_wc wc;

		vt_fill(src.p, sizes[i], i);
		assert_int_equal(vt_recv(qb, 100 + i, NULL, 0), 0);
		assert_int_equal(vt_write_imm(qa, i, IBV_SEND_SIGNALED,
					      0x12340000 + i, &sge, 1,
					      vt_addr(&dst), dst.mr->rkey),
				 0);
		wc = vt_expect(t, &t->b.recv, 100 + i, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
		assert_int_equal(wc.byte_len, sizes[i]);
		assert_int_equal(ntohl(wc.imm_data), 0x12340000 + i);
		assert_true(wc.wc_flags & IBV_WC_WITH_IMM);
		assert_int_equal(wc.qp_num, qb->qp_num);
		assert_memory_equal(src.p, dst.p, sizes[i]);
		vt_expect(t, &t->a.send, i, IBV_WC_SUCCESS);
	}
}

vt_pair_test(writes_in_both_directions_do_not_disturb_each_other)
{
	enum {
		SIZE = 1 << 20,
		N = 8
	};
	struct vt_mem a = vt_mem(t, &t->a, 2 * SIZE, VT_ALL);
	struct vt_mem b = vt_mem(t, &t->b, 2 * SIZE, VT_ALL);
	struct ibv_sge sa = vt_sge(&a, 0, SIZE), sb = vt_sge(&b, 0, SIZE);

	vt_fill(a.p, SIZE, 11);
	vt_fill(b.p, SIZE, 22);
	for (int i = 0; i < N; i++) {
		assert_int_equal(vt_recv(qa, 1, NULL, 0), 0);
		assert_int_equal(vt_recv(qb, 2, NULL, 0), 0);
		assert_int_equal(vt_write_imm(qa, 3, IBV_SEND_SIGNALED, 5, &sa,
					      1, vt_addr(&b) + SIZE,
					      b.mr->rkey),
				 0);
		assert_int_equal(vt_write_imm(qb, 4, IBV_SEND_SIGNALED, 6, &sb,
					      1, vt_addr(&a) + SIZE,
					      a.mr->rkey),
				 0);
	}
	for (int i = 0; i < N; i++) {
		vt_expect(t, &t->a.recv, 1, IBV_WC_SUCCESS);
		vt_expect(t, &t->b.recv, 2, IBV_WC_SUCCESS);
		vt_expect(t, &t->a.send, 3, IBV_WC_SUCCESS);
		vt_expect(t, &t->b.send, 4, IBV_WC_SUCCESS);
	}
	assert_memory_equal(a.p, b.p + SIZE, SIZE);
	assert_memory_equal(b.p, a.p + SIZE, SIZE);
}

vt_pair_test(a_write_gathers_pieces_from_several_regions)
{
	struct vt_mem s1 = vt_mem(t, &t->a, 8192, VT_LOCAL);
	struct vt_mem s2 = vt_mem(t, &t->a, 8192, VT_LOCAL);
	struct vt_mem dst = vt_mem(t, &t->b, 16384, VT_ALL);
	struct ibv_sge sge[4] = { vt_sge(&s1, 5, 1000), vt_sge(&s2, 0, 0),
				  vt_sge(&s2, 17, 8000), vt_sge(&s1, 4000, 3) };

	vt_fill(s1.p, s1.len, 3);
	vt_fill(s2.p, s2.len, 4);
	assert_int_equal(vt_rdma(qa, IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED,
				 sge, 4, vt_addr(&dst) + 9, dst.mr->rkey),
			 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	assert_memory_equal(dst.p + 9, s1.p + 5, 1000);
	assert_memory_equal(dst.p + 1009, s2.p + 17, 8000);
	assert_memory_equal(dst.p + 9009, s1.p + 4000, 3);
	assert_int_equal(dst.p[8], 0);
	assert_int_equal(dst.p[9012], 0);
}

vt_pair_test(a_chain_of_requests_is_sent_by_one_post)
{
	enum {
		N = 40
	};
	struct vt_mem src = vt_mem(t, &t->a, N * 512, VT_LOCAL);
	struct vt_mem dst = vt_mem(t, &t->b, N * 512, VT_ALL);
	struct ibv_send_wr wr[N] = { 0 }, *bad = NULL;
	struct ibv_sge sge[N];

	vt_fill(src.p, src.len, 9);
	assert_int_equal(vt_recv(qb, 5, NULL, 0), 0);
	for (size_t i = 0; i < N; i++) {
		sge[i] = vt_sge(&src, i * 512, 512);
		wr[i].wr_id = i;
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = 1;
		wr[i].opcode = IBV_WR_RDMA_WRITE;
		wr[i].wr.rdma.remote_addr = vt_addr(&dst) + i * 512;
		wr[i].wr.rdma.rkey = dst.mr->rkey;
		wr[i].next = i + 1 < N ? &wr[i + 1] : NULL;
	}
	wr[N - 1].opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr[N - 1].send_flags = IBV_SEND_SIGNALED;
	assert_int_equal(ibv_post_send(qa, wr, &bad), 0);
	assert_int_equal(vt_expect(t, &t->b.recv, 5, IBV_WC_SUCCESS).byte_len,
			 512);
	assert_memory_equal(src.p, dst.p, src.len);
	vt_expect(t, &t->a.send, N - 1, IBV_WC_SUCCESS);
	vt_quiet(t, &t->a.send, 20);
}

static void write_to_rtr(struct vt *t, struct vt_end *from, struct vt_end *to)
{
	struct vt_mem src = vt_mem(t, from, 64, VT_LOCAL);
	struct vt_mem dst = vt_mem(t, to, 64, VT_ALL);
	struct ibv_sge sge = vt_sge(&src, 0, 64);
	struct ibv_qp *q = vt_qp(t, from, &vt_usual);
	struct ibv_qp *r = vt_qp(t, to, &vt_usual);

	assert_int_equal(vt_to_init(t, q, VT_ALL), 0);
	assert_int_equal(vt_to_init(t, r, VT_ALL), 0);
	assert_int_equal(vt_to_rtr(t, q, to, r->qp_num, 5, &vt_usual), 0);
	assert_int_equal(vt_to_rtr(t, r, from, q->qp_num, 6, &vt_usual), 0);
	vt_turn(t);
	assert_int_equal(vt_to_rts(t, q, 6, &vt_usual), 0);
	vt_write(q, 1, &sge, &dst);
	vt_expect(t, &from->send, 1, IBV_WC_SUCCESS);
}

vt_test(a_responder_may_stay_in_rtr)
{
	/* Test both directions, because only one of the ends connects. */
	write_to_rtr(t, &t->a, &t->b);
	write_to_rtr(t, &t->b, &t->a);
}
