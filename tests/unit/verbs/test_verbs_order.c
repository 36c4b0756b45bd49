/* SPDX-License-Identifier: Apache-2.0 */
/* The order of the WRITEs of a QP. */
#include "vt.h"

#include <arpa/inet.h>

vt_test(writes_become_visible_in_posted_order)
{
	enum {
		N = 200,
		SIZE = 4000
	};
	struct vt_mem src = vt_mem(t, &t->a, N * SIZE, VT_LOCAL);
	struct vt_mem dst = vt_mem(t, &t->b, SIZE, VT_ALL);
	struct vt_opt o = vt_usual;
	struct ibv_qp *qa, *qb;

	o.send_wr = 2 * N;
	o.recv_wr = N;
	for (size_t i = 0; i < N; i++)
		memset(src.p + i * SIZE, (int)i, SIZE);
	vt_pair(t, &o, &qa, &qb);
	for (size_t i = 0; i < N; i++) {
		struct ibv_sge sge = vt_sge(&src, i * SIZE, SIZE);

		assert_int_equal(vt_recv(qb, i, NULL, 0), 0);
		/* All requests write to the same address, so the data of the
		 * last one must remain. */
		assert_int_equal(vt_rdma(qa, IBV_WR_RDMA_WRITE, i, 0, &sge, 1,
					 vt_addr(&dst), dst.mr->rkey),
				 0);
		assert_int_equal(vt_write_imm(qa, i, IBV_SEND_SIGNALED,
					      (uint32_t)i, NULL, 0, 0, 0),
				 0);
	}
	for (size_t i = 0; i < N; i++) {
		struct ibv_wc wc = vt_expect(t, &t->b.recv, i, IBV_WC_SUCCESS);

		assert_int_equal(ntohl(wc.imm_data), i);
		vt_expect(t, &t->a.send, i, IBV_WC_SUCCESS);
	}
	assert_int_equal(dst.p[0], N - 1);
	assert_int_equal(dst.p[SIZE - 1], N - 1);
}
