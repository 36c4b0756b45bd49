/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: wrong keys and lengths, flushed requests, and lost peers. */
#include "writes.h"

/* Return the expected status of a request whose lkey is unknown at its own
 * end. */
static enum ibv_wc_status bad_lkey(struct vt *t)
{
	return t->rxe ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_PROT_ERR;
}

writes_test(an_unknown_lkey_fails_after_the_requests_before_it)
{
	struct ibv_sge bad;

	bad = vt_sge(&writes.src, 0, 64);
	bad.lkey ^= 0x5a5a5a00;
	assert_int_equal(writes_good(1), 0);
	assert_int_equal(
		writes_post(2, bad, vt_addr(&writes.dst), writes.dst.mr->rkey),
		0);
	assert_int_equal(writes_good(3), 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 2, bad_lkey(t));
	vt_expect(t, &t->a.send, 3, IBV_WC_WR_FLUSH_ERR);
	writes_over(t);
}

writes_test(a_piece_beyond_its_region_fails_at_the_requester)
{
	struct ibv_sge bad;

	bad = vt_sge(&writes.src, 8000, 193);
	assert_int_equal(
		writes_post(2, bad, vt_addr(&writes.dst), writes.dst.mr->rkey),
		0);
	vt_expect(t, &t->a.send, 2, IBV_WC_LOC_PROT_ERR);
}

writes_test(a_region_of_another_pd_fails_at_the_requester)
{
	struct ibv_pd *own = t->a.pd, *other;
	struct vt_mem mem;

	assert_int_equal(t->v->alloc_pd(t->a.ctx, &other), 0);
	t->a.pd = other;
	mem = vt_mem(t, &t->a, 4096, VT_LOCAL);
	t->a.pd = own;
	assert_int_equal(writes_post(2, vt_sge(&mem, 0, 64),
				     vt_addr(&writes.dst), writes.dst.mr->rkey),
			 0);
	vt_expect(t, &t->a.send, 2, bad_lkey(t));
	vt_mem_free(t, &mem);
	assert_int_equal(t->v->dealloc_pd(other), 0);
}

writes_test(a_send_to_a_receive_that_is_too_small_fails_at_both_ends)
{
	struct ibv_sge in, out;

	in = vt_sge(&writes.src, 0, 100);
	out = vt_sge(&writes.dst, 0, 99);
	assert_int_equal(vt_recv(writes.qb, 5, &out, 1), 0);
	assert_int_equal(vt_recv(writes.qb, 6, &out, 1), 0);
	assert_int_equal(
		vt_send(writes.qa, IBV_WR_SEND, 7, IBV_SEND_SIGNALED, &in, 1),
		0);
	vt_expect(t, &t->b.recv, 5,
		  t->rxe ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_LEN_ERR);
	vt_expect(t, &t->a.send, 7,
		  t->rxe ? IBV_WC_REM_OP_ERR : IBV_WC_REM_INV_REQ_ERR);
	vt_expect(t, &t->b.recv, 6, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(vt_state(t, writes.qb), IBV_QPS_ERR);
}

writes_test(a_send_to_a_receive_with_a_bad_key_fails_at_both_ends)
{
	struct ibv_sge in, out;

	in = vt_sge(&writes.src, 0, 100);
	out = vt_sge(&writes.dst, 0, 100);
	out.lkey ^= 0x111000;
	assert_int_equal(vt_recv(writes.qb, 5, &out, 1), 0);
	assert_int_equal(
		vt_send(writes.qa, IBV_WR_SEND, 7, IBV_SEND_SIGNALED, &in, 1),
		0);
	vt_expect(t, &t->b.recv, 5, bad_lkey(t));
	vt_expect(t, &t->a.send, 7, IBV_WC_REM_OP_ERR);
}

writes_test(moving_to_error_flushes_everything_in_order)
{
	for (uint64_t i = 0; i < 10; i++) {
		/* Flushed requests have completions even if they are not
		 * signalled. */
		assert_int_equal(vt_send(writes.qa, IBV_WR_SEND, i, 0, NULL, 0),
				 0);
		assert_int_equal(vt_recv(writes.qa, 100 + i, NULL, 0), 0);
	}
	assert_int_equal(vt_to(t, writes.qa, IBV_QPS_ERR), 0);
	for (uint64_t i = 0; i < 10; i++) {
		vt_expect(t, &t->a.send, i, IBV_WC_WR_FLUSH_ERR);
		vt_expect(t, &t->a.recv, 100 + i, IBV_WC_WR_FLUSH_ERR);
	}
	writes_over(t);
	assert_int_equal(vt_recv(writes.qa, 200, NULL, 0), 0);
	/* librxe rings no doorbell for receives, so rxe does not flush this
	 * receive. */
	if (t->rxe)
		vt_quiet(t, &t->a.recv, 50);
	else
		vt_expect(t, &t->a.recv, 200, IBV_WC_WR_FLUSH_ERR);
}

/* Make a pair, send a message, destroy the second QP, and send another
 * message. */
static void lose_the_peer(struct vt *t, const struct vt_opt *o)
{
	vt_destroy(t, writes.qa, writes.qb);
	vt_pair(t, o, &writes.qa, &writes.qb);
	assert_int_equal(writes_good(1), 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	vt_destroy(t, NULL, writes.qb);
	writes.qb = NULL;
	assert_int_equal(writes_good(2), 0);
}

writes_test(requests_to_a_destroyed_qp_end_in_retry_exceeded)
{
	struct vt_opt o = vt_usual;

	o.timeout = 14;
	o.retry_cnt = 1;
	lose_the_peer(t, &o);
	assert_int_equal(writes_good(3), 0);
	vt_expect(t, &t->a.send, 2, IBV_WC_RETRY_EXC_ERR);
	vt_expect(t, &t->a.send, 3, IBV_WC_WR_FLUSH_ERR);
}

writes_test(requests_to_a_destroyed_qp_do_not_fail_before_their_timeout)
{
	struct vt_opt o = vt_usual;

	o.timeout = 20; /* half a minute */
	lose_the_peer(t, &o);
	vt_quiet(t, &t->a.send, 50);
	assert_int_equal(vt_state(t, writes.qa), IBV_QPS_RTS);
}

writes_test(requests_to_a_qp_that_never_existed_end_in_retry_exceeded)
{
	struct vt_opt o = vt_usual;
	struct vt_mem src = vt_mem(t, &t->a, 64, VT_LOCAL);
	struct ibv_sge sge = vt_sge(&src, 0, 64);
	struct ibv_qp *qa, *qb;

	o.timeout = 14;
	o.retry_cnt = 1;
	qa = vt_qp(t, &t->a, &o);
	qb = vt_qp(t, &t->b, &o);
	assert_int_equal(vt_to_init(t, qa, VT_ALL), 0);
	assert_int_equal(vt_to_rtr(t, qa, &t->b, qb->qp_num, 0, &o), 0);
	assert_int_equal(vt_to_rts(t, qa, 0, &o), 0);
	vt_destroy(t, NULL, qb);
	assert_int_equal(vt_rdma(qa, IBV_WR_RDMA_WRITE, 4, IBV_SEND_SIGNALED,
				 &sge, 1, 0, 0),
			 0);
	vt_expect(t, &t->a.send, 4, IBV_WC_RETRY_EXC_ERR);
}

writes_test(an_error_does_not_affect_other_qps)
{
	struct ibv_qp *qa, *qb;

	vt_pair(t, &vt_usual, &qa, &qb);
	assert_int_equal(vt_recv(qb, 1, NULL, 0), 0);
	assert_int_equal(writes_post(2, vt_sge(&writes.src, 0, 64), 0, 0), 0);
	vt_expect(t, &t->a.send, 2, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(vt_send_imm(qa, 3, 0, NULL, 0), 0);
	vt_expect(t, &t->b.recv, 1, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 3, IBV_WC_SUCCESS);
	vt_refused(t, writes.qb, IBV_EVENT_QP_ACCESS_ERR);
}

writes_test(a_received_message_is_acked_even_if_the_qp_is_destroyed)
{
	for (int i = 0; i < 30; i++) {
		assert_int_equal(vt_recv(writes.qb, 1, NULL, 0), 0);
		assert_int_equal(vt_send_imm(writes.qa, 2, 0, NULL, 0), 0);
		vt_expect(t, &t->b.recv, 1, IBV_WC_SUCCESS);
		vt_destroy(t, NULL, writes.qb);
		vt_expect(t, &t->a.send, 2, IBV_WC_SUCCESS);
		vt_destroy(t, writes.qa, NULL);
		vt_pair(t, &vt_usual, &writes.qa, &writes.qb);
	}
}
