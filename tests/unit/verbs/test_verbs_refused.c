/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that a responder refuses because of keys, bounds or access
 * rights. */
#include "writes.h"

/* Post a bad WRITE between two good ones. Expect an error at the requester and
 * an event at the responder. */
static void refused(struct vt *t, uint64_t raddr, uint32_t rkey, size_t len)
{
	assert_int_equal(writes_good(1), 0);
	assert_int_equal(
		writes_post(2, vt_sge(&writes.src, 0, len), raddr, rkey), 0);
	assert_int_equal(writes_good(3), 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 2, IBV_WC_REM_ACCESS_ERR);
	vt_expect(t, &t->a.send, 3, IBV_WC_WR_FLUSH_ERR);
	writes_over(t);
	vt_refused(t, writes.qb, IBV_EVENT_QP_ACCESS_ERR);
}

writes_test(an_unknown_rkey_is_refused_by_the_responder)
{
	refused(t, vt_addr(&writes.dst), writes.dst.mr->rkey ^ 0x77001, 64);
}

writes_test(a_write_beyond_the_region_is_refused)
{
	refused(t, vt_addr(&writes.dst) + 8192 - 63, writes.dst.mr->rkey, 64);
}

writes_test(a_write_before_the_region_is_refused)
{
	refused(t, vt_addr(&writes.dst) - 1, writes.dst.mr->rkey, 64);
}

writes_test(an_address_that_wraps_round_is_refused)
{
	refused(t, UINT64_MAX - 10, writes.dst.mr->rkey, 64);
}

writes_test(a_write_to_a_region_without_write_access_is_refused)
{
	struct vt_mem ro =
		vt_mem(t, &t->b, 4096, VT_LOCAL | IBV_ACCESS_REMOTE_READ);

	refused(t, vt_addr(&ro), ro.mr->rkey, 64);
	assert_int_equal(ro.p[0], 0);
}

writes_test(an_rkey_of_another_pd_is_refused)
{
	struct ibv_pd *own = t->b.pd, *other;
	struct vt_mem mem;

	assert_int_equal(t->v->alloc_pd(t->b.ctx, &other), 0);
	t->b.pd = other;
	mem = vt_mem(t, &t->b, 4096, VT_ALL);
	t->b.pd = own;
	refused(t, vt_addr(&mem), mem.mr->rkey, 64);
	assert_int_equal(mem.p[0], 0);
	vt_mem_free(t, &mem);
	assert_int_equal(t->v->dealloc_pd(other), 0);
}

writes_test(a_write_to_a_qp_without_write_access_is_refused)
{
	struct vt_opt o = vt_usual;

	vt_destroy(t, writes.qa, writes.qb);
	o.access = IBV_ACCESS_REMOTE_READ;
	vt_pair(t, &o, &writes.qa, &writes.qb);
	assert_int_equal(writes_good(1), 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_REM_INV_REQ_ERR);
	vt_refused(t, writes.qb, IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(writes.dst.p[0], 0);
}

writes_test(a_zero_length_write_needs_no_valid_key)
{
	vt_nothing(writes.qa, 1);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
}
