/* SPDX-License-Identifier: Apache-2.0 */
#include "writes.h"

void writes_begin(struct vt *t, struct writes *f)
{
	f->src = vt_mem(t, &t->a, 8192, VT_LOCAL);
	f->dst = vt_mem(t, &t->b, 8192, VT_ALL);
	vt_fill(f->src.p, f->src.len, 4);
	vt_pair(t, &vt_usual, &f->qa, &f->qb);
}

int writes_post(struct writes *f, uint64_t id, struct ibv_sge sge,
		uint64_t raddr, uint32_t rkey)
{
	return vt_rdma(f->qa, IBV_WR_RDMA_WRITE, id, IBV_SEND_SIGNALED, &sge, 1,
		       raddr, rkey);
}

int writes_good(struct writes *f, uint64_t id)
{
	return writes_post(f, id, vt_sge(&f->src, 0, 64), vt_addr(&f->dst),
			   f->dst.mr->rkey);
}

void writes_over(struct vt *t, struct writes *f)
{
	assert_int_equal(vt_state(t, f->qa), IBV_QPS_ERR);
	assert_int_equal(writes_good(f, 90), 0);
	vt_expect(t, &t->a.send, 90, IBV_WC_WR_FLUSH_ERR);
}
