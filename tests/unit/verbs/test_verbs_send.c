/* SPDX-License-Identifier: Apache-2.0 */
/* SEND and RECV: scattering, immediate data, RNR, inline data, and full
 * queues. */
#include "vt.h"

#include <arpa/inet.h>
#include <errno.h>

vt_pair_test(a_send_scatters_over_the_pieces_of_the_receive)
{
	struct vt_mem src = vt_mem(t, &t->a, 65536, VT_LOCAL);
	struct vt_mem dst = vt_mem(t, &t->b, 131072, VT_LOCAL);
	struct ibv_sge in = vt_sge(&src, 0, 60000);
	struct ibv_sge out[3] = { vt_sge(&dst, 7, 100),
				  vt_sge(&dst, 1000, 50000),
				  vt_sge(&dst, 65536, 65536) };
	struct ibv_wc wc;

	vt_fill(src.p, src.len, 2);
	assert_int_equal(vt_recv(qb, 9, out, 3), 0);
	assert_int_equal(vt_send(qa, IBV_WR_SEND, 8, IBV_SEND_SIGNALED, &in, 1),
			 0);
	wc = vt_expect(t, &t->b.recv, 9, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, 60000);
	assert_false(wc.wc_flags & IBV_WC_WITH_IMM);
	assert_memory_equal(dst.p + 7, src.p, 100);
	assert_memory_equal(dst.p + 1000, src.p + 100, 50000);
	assert_memory_equal(dst.p + 65536, src.p + 50100, 9900);
	assert_int_equal(dst.p[65536 + 9900], 0);
	assert_int_equal(vt_expect(t, &t->a.send, 8, IBV_WC_SUCCESS).opcode,
			 IBV_WC_SEND);
}

vt_pair_test(inline_data_is_copied_at_the_post)
{
	struct vt_mem dst = vt_mem(t, &t->b, 4096, VT_ALL);
	char text[] = "not registered at all";
	struct ibv_sge sge = { .addr = (uintptr_t)text,
			       .length = sizeof(text),
			       .lkey = 0xdead };
	struct ibv_sge out = vt_sge(&dst, 0, 64);

	assert_int_equal(vt_rdma(qa, IBV_WR_RDMA_WRITE, 1, IBV_SEND_INLINE,
				 &sge, 1, vt_addr(&dst) + 100, dst.mr->rkey),
			 0);
	assert_int_equal(vt_recv(qb, 3, &out, 1), 0);
	assert_int_equal(vt_send(qa, IBV_WR_SEND, 2,
				 IBV_SEND_INLINE | IBV_SEND_SIGNALED, &sge, 1),
			 0);
	memset(text, 0, sizeof(text));
	vt_expect(t, &t->b.recv, 3, IBV_WC_SUCCESS);
	assert_string_equal((char *)dst.p, "not registered at all");
	assert_string_equal((char *)dst.p + 100, "not registered at all");
	vt_expect(t, &t->a.send, 2, IBV_WC_SUCCESS);
}

vt_pair_test(more_inline_data_than_granted_is_refused)
{
	static char big[4096];
	struct ibv_sge sge = { .addr = (uintptr_t)big, .length = sizeof(big) };

	assert_int_not_equal(
		vt_send(qa, IBV_WR_SEND, 2, IBV_SEND_INLINE, &sge, 1), 0);
	vt_quiet(t, &t->a.send, 10);
}

vt_test(without_a_receive_the_sender_gives_up_after_rnr_retry)
{
	struct vt_opt o = vt_usual;
	struct ibv_qp *qa, *qb;

	o.rnr_retry = 2;
	vt_pair(t, &o, &qa, &qb);
	assert_int_equal(vt_send_imm(qa, 8, 1, NULL, 0), 0);
	assert_int_equal(vt_send_imm(qa, 9, 1, NULL, 0), 0);
	vt_expect(t, &t->a.send, 8, IBV_WC_RNR_RETRY_EXC_ERR);
	vt_expect(t, &t->a.send, 9, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(vt_state(t, qa), IBV_QPS_ERR);
	assert_int_equal(vt_state(t, qb), IBV_QPS_RTS);
}

vt_pair_test(with_rnr_retry_seven_a_send_waits_and_keeps_the_order)
{
	enum {
		N = 10,
		SIZE = 20000
	};
	struct vt_mem src = vt_mem(t, &t->a, N * SIZE, VT_LOCAL);
	struct vt_mem dst = vt_mem(t, &t->b, N * SIZE, VT_ALL);

	vt_fill(src.p, src.len, 77);
	for (size_t i = 0; i < N; i++) {
		struct ibv_sge sge = vt_sge(&src, i * SIZE, SIZE);

		assert_int_equal(vt_write_imm(qa, i, IBV_SEND_SIGNALED,
					      (uint32_t)i, &sge, 1,
					      vt_addr(&dst) + i * SIZE,
					      dst.mr->rkey),
				 0);
	}
	vt_quiet(t, &t->a.send, 300);
	for (size_t i = 0; i < N; i++) {
		struct ibv_wc wc;

		vt_quiet(t, &t->b.recv, 20);
		assert_int_equal(vt_recv(qb, 50 + i, NULL, 0), 0);
		wc = vt_expect(t, &t->b.recv, 50 + i, IBV_WC_SUCCESS);
		assert_int_equal(ntohl(wc.imm_data), i);
		assert_int_equal(wc.byte_len, SIZE);
		vt_expect(t, &t->a.send, i, IBV_WC_SUCCESS);
	}
	assert_memory_equal(src.p, dst.p, src.len);
}

/* The receiver refuses the message (RNR) before most of it is sent. */
vt_pair_test(a_message_bigger_than_any_buffer_survives_rnr)
{
	enum {
		SIZE = 24 << 20
	};
	struct vt_mem src = vt_mem(t, &t->a, SIZE, VT_LOCAL);
	struct vt_mem dst = vt_mem(t, &t->b, SIZE, VT_ALL);
	struct ibv_sge sge = vt_sge(&src, 0, SIZE);

	vt_fill(src.p, SIZE, 31);
	assert_int_equal(vt_write_imm(qa, 1, IBV_SEND_SIGNALED, 0, &sge, 1,
				      vt_addr(&dst), dst.mr->rkey),
			 0);
	assert_int_equal(
		vt_write_imm(qa, 2, IBV_SEND_SIGNALED, 0, NULL, 0, 0, 0), 0);
	vt_quiet(t, &t->a.send, 30);
	assert_int_equal(vt_recv(qb, 3, NULL, 0), 0);
	assert_int_equal(vt_recv(qb, 4, NULL, 0), 0);
	assert_int_equal(vt_expect(t, &t->b.recv, 3, IBV_WC_SUCCESS).byte_len,
			 SIZE);
	assert_memory_equal(src.p, dst.p, SIZE);
	vt_expect(t, &t->b.recv, 4, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 2, IBV_WC_SUCCESS);
}

static uint32_t send_room(struct vt *t, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	assert_int_equal(t->v->query_qp(qp, &attr, IBV_QP_CAP, &init), 0);
	return init.cap.max_send_wr;
}

vt_pair_test(a_full_send_queue_returns_the_refused_request)
{
	struct ibv_send_wr wr[2] = { { .opcode = IBV_WR_SEND },
				     { .opcode = IBV_WR_SEND } };
	struct ibv_send_wr *bad = NULL;
	uint32_t n = 0;

	/* End b has no receive, so no WR leaves the send queue. */
	while (n < 65536 && !vt_send(qa, IBV_WR_SEND, n, 0, NULL, 0))
		n++;
	assert_true(n >= vt_usual.send_wr);
	wr[0].next = &wr[1];
	assert_int_equal(ibv_post_send(qa, wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr[0]);
}

vt_pair_test(unsignalled_requests_are_freed_by_a_later_completion)
{
	uint32_t room = send_room(t, qa);

	for (int round = 0; round < 5; round++) {
		for (uint32_t i = 0; i + 1 < room; i++)
			assert_int_equal(vt_rdma(qa, IBV_WR_RDMA_WRITE, i, 0,
						 NULL, 0, 0, 0),
					 0);
		vt_nothing(qa, 777);
		vt_expect(t, &t->a.send, 777, IBV_WC_SUCCESS);
		vt_quiet(t, &t->a.send, 5);
	}
}

vt_test(with_sq_sig_all_every_request_is_signalled)
{
	struct vt_opt o = vt_usual;
	struct ibv_qp *qa, *qb;

	o.sig_all = true;
	vt_pair(t, &o, &qa, &qb);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(
			vt_rdma(qa, IBV_WR_RDMA_WRITE, i, 0, NULL, 0, 0, 0), 0);
	for (unsigned i = 0; i < 10; i++)
		vt_expect(t, &t->a.send, i, IBV_WC_SUCCESS);
}

vt_pair_test(a_receive_for_a_full_queue_is_refused)
{
	struct ibv_recv_wr wr = { 0 }, *bad = NULL;
	int n = 0;

	while (n < 65536 && !vt_recv(qb, 1, NULL, 0))
		n++;
	assert_true(n >= (int)vt_usual.recv_wr);
	assert_int_equal(ibv_post_recv(qb, &wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr);
}
