/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong: protection, lengths, flushing, and who hears of it. */
#include "vt.h"

#include <errno.h>

struct fixture {
	struct vt_mem src, dst;
	struct ibv_qp *qa, *qb;
};

static void begin(struct vt *t, struct fixture *f)
{
	f->src = vt_mem(t, &t->a, 8192, VT_LOCAL);
	f->dst = vt_mem(t, &t->b, 8192, VT_ALL);
	vt_fill(f->src.p, f->src.len, 4);
	vt_pair(t, &vt_usual, &f->qa, &f->qb);
}

static void end(struct vt *t, struct fixture *f)
{
	vt_destroy(t, f->qa, f->qb);
	vt_mem_free(t, &f->src);
	vt_mem_free(t, &f->dst);
}

static int post_write(struct fixture *f, uint64_t id, struct ibv_sge sge,
		      uint64_t raddr, uint32_t rkey)
{
	return vt_rdma(f->qa, IBV_WR_RDMA_WRITE, id, IBV_SEND_SIGNALED, &sge, 1,
		       raddr, rkey);
}

static int good_write(struct fixture *f, uint64_t id)
{
	return post_write(f, id, vt_sge(&f->src, 0, 64), vt_addr(&f->dst),
			  f->dst.mr->rkey);
}

static void all_in_error_at_a(struct vt *t, struct fixture *f)
{
	assert_int_equal(vt_state(t, f->qa), IBV_QPS_ERR);
	assert_int_equal(good_write(f, 90), 0);
	vt_expect(t, &t->a.send, 90, IBV_WC_WR_FLUSH_ERR);
}

/* How a key that this end does not know is told. */
static enum ibv_wc_status bad_lkey(struct vt *t)
{
	return t->rxe ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_PROT_ERR;
}

static void an_unknown_lkey_fails_after_what_was_before_it(void **state)
{
	struct vt *t = *state;
	struct ibv_sge bad;
	struct fixture f;

	begin(t, &f);
	bad = vt_sge(&f.src, 0, 64);
	bad.lkey ^= 0x5a5a5a00;
	assert_int_equal(good_write(&f, 1), 0);
	assert_int_equal(
		post_write(&f, 2, bad, vt_addr(&f.dst), f.dst.mr->rkey), 0);
	assert_int_equal(good_write(&f, 3), 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 2, bad_lkey(t));
	vt_expect(t, &t->a.send, 3, IBV_WC_WR_FLUSH_ERR);
	all_in_error_at_a(t, &f);
	end(t, &f);
}

static void a_piece_beyond_its_region_is_refused_here(void **state)
{
	struct vt *t = *state;
	struct ibv_sge bad;
	struct fixture f;

	begin(t, &f);
	bad = vt_sge(&f.src, 8000, 193);
	assert_int_equal(
		post_write(&f, 2, bad, vt_addr(&f.dst), f.dst.mr->rkey), 0);
	vt_expect(t, &t->a.send, 2, IBV_WC_LOC_PROT_ERR);
	end(t, &f);
}

static void a_region_of_another_pd_is_refused_here(void **state)
{
	struct vt *t = *state;
	struct ibv_pd *own = t->a.pd, *other;
	struct vt_mem mem;
	struct fixture f;

	begin(t, &f);
	assert_int_equal(t->v->alloc_pd(t->a.ctx, &other), 0);
	t->a.pd = other;
	mem = vt_mem(t, &t->a, 4096, VT_LOCAL);
	t->a.pd = own;
	assert_int_equal(post_write(&f, 2, vt_sge(&mem, 0, 64), vt_addr(&f.dst),
				    f.dst.mr->rkey),
			 0);
	vt_expect(t, &t->a.send, 2, bad_lkey(t));
	vt_mem_free(t, &mem);
	assert_int_equal(t->v->dealloc_pd(other), 0);
	end(t, &f);
}

/* One bad WRITE: the requester's error, and the responder's event. */
static void refused(struct vt *t, struct fixture *f, uint64_t raddr,
		    uint32_t rkey, size_t len)
{
	assert_int_equal(good_write(f, 1), 0);
	assert_int_equal(post_write(f, 2, vt_sge(&f->src, 0, len), raddr, rkey),
			 0);
	assert_int_equal(good_write(f, 3), 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 2, IBV_WC_REM_ACCESS_ERR);
	vt_expect(t, &t->a.send, 3, IBV_WC_WR_FLUSH_ERR);
	all_in_error_at_a(t, f);
	vt_refused(t, f->qb, IBV_EVENT_QP_ACCESS_ERR);
}

static void an_unknown_rkey_is_refused_by_the_responder(void **state)
{
	struct vt *t = *state;
	struct fixture f;

	begin(t, &f);
	refused(t, &f, vt_addr(&f.dst), f.dst.mr->rkey ^ 0x77001, 64);
	end(t, &f);
}

static void a_write_beyond_the_region_is_refused(void **state)
{
	struct vt *t = *state;
	struct fixture f;

	begin(t, &f);
	refused(t, &f, vt_addr(&f.dst) + 8192 - 63, f.dst.mr->rkey, 64);
	end(t, &f);
}

static void a_write_before_the_region_is_refused(void **state)
{
	struct vt *t = *state;
	struct fixture f;

	begin(t, &f);
	refused(t, &f, vt_addr(&f.dst) - 1, f.dst.mr->rkey, 64);
	end(t, &f);
}

static void an_address_that_wraps_round_is_refused(void **state)
{
	struct vt *t = *state;
	struct fixture f;

	begin(t, &f);
	refused(t, &f, UINT64_MAX - 10, f.dst.mr->rkey, 64);
	end(t, &f);
}

static void a_region_not_for_writing_is_refused(void **state)
{
	struct vt *t = *state;
	struct vt_mem ro =
		vt_mem(t, &t->b, 4096, VT_LOCAL | IBV_ACCESS_REMOTE_READ);
	struct fixture f;

	begin(t, &f);
	refused(t, &f, vt_addr(&ro), ro.mr->rkey, 64);
	assert_int_equal(ro.p[0], 0);
	end(t, &f);
	vt_mem_free(t, &ro);
}

static void an_rkey_of_another_pd_is_refused(void **state)
{
	struct vt *t = *state;
	struct ibv_pd *own = t->b.pd, *other;
	struct vt_mem mem;
	struct fixture f;

	begin(t, &f);
	assert_int_equal(t->v->alloc_pd(t->b.ctx, &other), 0);
	t->b.pd = other;
	mem = vt_mem(t, &t->b, 4096, VT_ALL);
	t->b.pd = own;
	refused(t, &f, vt_addr(&mem), mem.mr->rkey, 64);
	assert_int_equal(mem.p[0], 0);
	vt_mem_free(t, &mem);
	assert_int_equal(t->v->dealloc_pd(other), 0);
	end(t, &f);
}

static void a_qp_not_for_writing_refuses(void **state)
{
	struct vt *t = *state;
	struct vt_opt o = vt_usual;
	struct fixture f;

	begin(t, &f);
	vt_destroy(t, f.qa, f.qb);
	o.access = IBV_ACCESS_REMOTE_READ;
	vt_pair(t, &o, &f.qa, &f.qb);
	assert_int_equal(good_write(&f, 1), 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_REM_INV_REQ_ERR);
	vt_refused(t, f.qb, IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(f.dst.p[0], 0);
	end(t, &f);
}

static void a_zero_length_write_needs_no_valid_key(void **state)
{
	struct vt *t = *state;
	struct fixture f;

	begin(t, &f);
	assert_int_equal(vt_rdma(f.qa, IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED,
				 NULL, 0, 0, 0),
			 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	end(t, &f);
}

static void a_receive_too_small_fails_at_both_ends(void **state)
{
	struct vt *t = *state;
	struct ibv_sge in, out;
	struct fixture f;

	begin(t, &f);
	in = vt_sge(&f.src, 0, 100);
	out = vt_sge(&f.dst, 0, 99);
	assert_int_equal(vt_recv(f.qb, 5, &out, 1), 0);
	assert_int_equal(vt_recv(f.qb, 6, &out, 1), 0);
	assert_int_equal(
		vt_send(f.qa, IBV_WR_SEND, 7, IBV_SEND_SIGNALED, &in, 1), 0);
	vt_expect(t, &t->b.recv, 5,
		  t->rxe ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_LEN_ERR);
	vt_expect(t, &t->a.send, 7,
		  t->rxe ? IBV_WC_REM_OP_ERR : IBV_WC_REM_INV_REQ_ERR);
	vt_expect(t, &t->b.recv, 6, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(vt_state(t, f.qb), IBV_QPS_ERR);
	end(t, &f);
}

static void a_receive_with_a_bad_key_fails_at_both_ends(void **state)
{
	struct vt *t = *state;
	struct ibv_sge in, out;
	struct fixture f;

	begin(t, &f);
	in = vt_sge(&f.src, 0, 100);
	out = vt_sge(&f.dst, 0, 100);
	out.lkey ^= 0x111000;
	assert_int_equal(vt_recv(f.qb, 5, &out, 1), 0);
	assert_int_equal(
		vt_send(f.qa, IBV_WR_SEND, 7, IBV_SEND_SIGNALED, &in, 1), 0);
	vt_expect(t, &t->b.recv, 5, bad_lkey(t));
	vt_expect(t, &t->a.send, 7, IBV_WC_REM_OP_ERR);
	end(t, &f);
}

static void moving_to_error_flushes_everything_in_order(void **state)
{
	struct vt *t = *state;
	struct fixture f;

	begin(t, &f);
	for (uint64_t i = 0; i < 10; i++) {
		/* Unsignalled ones are flushed with a completion, too. */
		assert_int_equal(vt_send(f.qa, IBV_WR_SEND, i, 0, NULL, 0), 0);
		assert_int_equal(vt_recv(f.qa, 100 + i, NULL, 0), 0);
	}
	assert_int_equal(vt_to(t, f.qa, IBV_QPS_ERR), 0);
	for (uint64_t i = 0; i < 10; i++) {
		vt_expect(t, &t->a.send, i, IBV_WC_WR_FLUSH_ERR);
		vt_expect(t, &t->a.recv, 100 + i, IBV_WC_WR_FLUSH_ERR);
	}
	all_in_error_at_a(t, &f);
	assert_int_equal(vt_recv(f.qa, 200, NULL, 0), 0);
	/* librxe rings no bell for a receive, so nothing flushes it. */
	if (t->rxe)
		vt_quiet(t, &t->a.recv, 50);
	else
		vt_expect(t, &t->a.recv, 200, IBV_WC_WR_FLUSH_ERR);
	end(t, &f);
}

static void an_error_completion_names_its_qp(void **state)
{
	struct vt *t = *state;
	struct fixture f;
	struct ibv_wc wc;

	begin(t, &f);
	assert_int_equal(vt_to(t, f.qa, IBV_QPS_ERR), 0);
	assert_int_equal(good_write(&f, 5), 0);
	wc = vt_expect(t, &t->a.send, 5, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wc.qp_num, f.qa->qp_num);
	end(t, &f);
}

static void a_peer_that_is_gone_ends_in_retry_exceeded(void **state)
{
	struct vt *t = *state;
	struct vt_opt o = vt_usual;
	struct fixture f;

	begin(t, &f);
	vt_destroy(t, f.qa, f.qb);
	o.timeout = 14;
	o.retry_cnt = 1;
	vt_pair(t, &o, &f.qa, &f.qb);
	assert_int_equal(good_write(&f, 1), 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	vt_destroy(t, NULL, f.qb);
	f.qb = NULL;
	assert_int_equal(good_write(&f, 2), 0);
	assert_int_equal(good_write(&f, 3), 0);
	vt_expect(t, &t->a.send, 2, IBV_WC_RETRY_EXC_ERR);
	vt_expect(t, &t->a.send, 3, IBV_WC_WR_FLUSH_ERR);
	end(t, &f);
}

static void a_peer_that_is_gone_is_given_its_retries(void **state)
{
	struct vt *t = *state;
	struct vt_opt o = vt_usual;
	struct fixture f;

	begin(t, &f);
	vt_destroy(t, f.qa, f.qb);
	/* Half a minute. */
	o.timeout = 20;
	vt_pair(t, &o, &f.qa, &f.qb);
	assert_int_equal(good_write(&f, 1), 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	vt_destroy(t, NULL, f.qb);
	f.qb = NULL;
	assert_int_equal(good_write(&f, 2), 0);
	vt_quiet(t, &t->a.send, 50);
	assert_int_equal(vt_state(t, f.qa), IBV_QPS_RTS);
	end(t, &f);
}

static void a_peer_that_never_was_ends_in_retry_exceeded(void **state)
{
	struct vt *t = *state;
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
	vt_destroy(t, qa, NULL);
	vt_mem_free(t, &src);
}

static void an_error_leaves_other_qps_alone(void **state)
{
	struct vt *t = *state;
	struct ibv_qp *qa, *qb;
	struct fixture f;

	begin(t, &f);
	vt_pair(t, &vt_usual, &qa, &qb);
	assert_int_equal(vt_recv(qb, 1, NULL, 0), 0);
	assert_int_equal(post_write(&f, 2, vt_sge(&f.src, 0, 64), 0, 0), 0);
	vt_expect(t, &t->a.send, 2, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(vt_send_imm(qa, 3, 0, NULL, 0), 0);
	vt_expect(t, &t->b.recv, 1, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 3, IBV_WC_SUCCESS);
	vt_refused(t, f.qb, IBV_EVENT_QP_ACCESS_ERR);
	vt_destroy(t, qa, qb);
	end(t, &f);
}

static void what_was_received_is_acked_though_the_qp_goes_at_once(void **s)
{
	struct vt *t = *s;
	struct fixture f;

	begin(t, &f);
	for (int i = 0; i < 30; i++) {
		assert_int_equal(vt_recv(f.qb, 1, NULL, 0), 0);
		assert_int_equal(vt_send_imm(f.qa, 2, 0, NULL, 0), 0);
		vt_expect(t, &t->b.recv, 1, IBV_WC_SUCCESS);
		vt_destroy(t, NULL, f.qb);
		vt_expect(t, &t->a.send, 2, IBV_WC_SUCCESS);
		vt_destroy(t, f.qa, NULL);
		vt_pair(t, &vt_usual, &f.qa, &f.qb);
	}
	end(t, &f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		vt_test(an_unknown_lkey_fails_after_what_was_before_it),
		vt_test(a_piece_beyond_its_region_is_refused_here),
		vt_test(a_region_of_another_pd_is_refused_here),
		vt_test(an_unknown_rkey_is_refused_by_the_responder),
		vt_test(a_write_beyond_the_region_is_refused),
		vt_test(a_write_before_the_region_is_refused),
		vt_test(an_address_that_wraps_round_is_refused),
		vt_test(a_region_not_for_writing_is_refused),
		vt_test(an_rkey_of_another_pd_is_refused),
		vt_test(a_qp_not_for_writing_refuses),
		vt_test(a_zero_length_write_needs_no_valid_key),
		vt_test(a_receive_too_small_fails_at_both_ends),
		vt_test(a_receive_with_a_bad_key_fails_at_both_ends),
		vt_test(moving_to_error_flushes_everything_in_order),
		vt_test(an_error_completion_names_its_qp),
		vt_test(a_peer_that_is_gone_ends_in_retry_exceeded),
		vt_test(a_peer_that_is_gone_is_given_its_retries),
		vt_test(a_peer_that_never_was_ends_in_retry_exceeded),
		vt_test(an_error_leaves_other_qps_alone),
		vt_test(what_was_received_is_acked_though_the_qp_goes_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
