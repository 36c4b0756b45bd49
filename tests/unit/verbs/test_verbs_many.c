/* SPDX-License-Identifier: Apache-2.0 */
/* Many QPs at the same time. */
#include "vt.h"

#include <arpa/inet.h>

enum {
	N = 200
};

vt_test(hundreds_of_qps_share_two_ports)
{
	struct vt_mem src = vt_mem(t, &t->a, N * 1000, VT_LOCAL);
	struct vt_mem dst = vt_mem(t, &t->b, N * 1000, VT_ALL);
	struct ibv_qp *qa[N], *qb[N];
	bool seen[N] = { false };

	vt_fill(src.p, src.len, 12);
	for (unsigned i = 0; i < N; i++) {
		vt_pair(t, &vt_usual, &qa[i], &qb[i]);
		assert_int_equal(vt_recv(qb[i], i, NULL, 0), 0);
	}
	for (unsigned i = 0; i < N; i++) {
		struct ibv_sge sge = vt_sge(&src, i * 1000, 1000);

		assert_int_equal(vt_write_imm(qa[i], i, IBV_SEND_SIGNALED, i,
					      &sge, 1, vt_addr(&dst) + i * 1000,
					      dst.mr->rkey),
				 0);
	}
	for (unsigned i = 0; i < N; i++) {
		struct ibv_wc wc = vt_wait(t, &t->b.recv);

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(ntohl(wc.imm_data), wc.wr_id);
		assert_false(seen[wc.wr_id]);
		seen[wc.wr_id] = true;
		wc = vt_wait(t, &t->a.send);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	assert_memory_equal(src.p, dst.p, src.len);
}
