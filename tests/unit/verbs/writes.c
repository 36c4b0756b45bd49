/* SPDX-License-Identifier: Apache-2.0 */
#include "writes.h"

struct writes writes;

int writes_setup(void **state)
{
	int rc = vt_setup(state);
	struct vt *t = *state;

	if (rc)
		return rc;
	writes.src = vt_mem(t, &t->a, 8192, VT_LOCAL);
	writes.dst = vt_mem(t, &t->b, 8192, VT_ALL);
	vt_fill(writes.src.p, writes.src.len, 4);
	vt_pair(t, &vt_usual, &writes.qa, &writes.qb);
	return 0;
}

int writes_post(uint64_t id, struct ibv_sge sge, uint64_t raddr, uint32_t rkey)
{
	return vt_rdma(writes.qa, IBV_WR_RDMA_WRITE, id, IBV_SEND_SIGNALED,
		       &sge, 1, raddr, rkey);
}

int writes_good(uint64_t id)
{
	return writes_post(id, vt_sge(&writes.src, 0, 64), vt_addr(&writes.dst),
			   writes.dst.mr->rkey);
}

void writes_over(struct vt *t)
{
	assert_int_equal(vt_state(t, writes.qa), IBV_QPS_ERR);
	assert_int_equal(writes_good(90), 0);
	vt_expect(t, &t->a.send, 90, IBV_WC_WR_FLUSH_ERR);
}
