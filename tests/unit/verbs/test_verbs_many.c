/* SPDX-License-Identifier: Apache-2.0 */
/* Many QPs at once, and their coming and going. */
#include "vt.h"

#include <arpa/inet.h>

enum {
	N = 200
};

static void hundreds_of_qps_share_two_ports(void **state)
{
	struct vt *t = *state;
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

static void numbers_are_all_different(void **state)
{
	struct vt *t = *state;
	struct ibv_qp *qp[N];

	for (int i = 0; i < N; i++) {
		qp[i] = vt_qp(t, i & 1 ? &t->a : &t->b, &vt_usual);
		for (int j = t->same ? 0 : i & 1; j < i; j += t->same ? 1 : 2)
			assert_true(qp[i]->qp_num != qp[j]->qp_num);
	}
}

static void destroying_at_any_moment_harms_nobody(void **state)
{
	struct vt *t = *state;
	struct vt_mem src = vt_mem(t, &t->a, 1 << 20, VT_LOCAL);
	struct vt_mem dst = vt_mem(t, &t->b, 1 << 20, VT_ALL);
	uint64_t rng = 4711;

	for (int round = 0; round < 60; round++) {
		struct ibv_sge sge = vt_sge(&src, 0, 1 << 20);
		int turns = (int)(vt_rand(&rng) % 12);
		struct ibv_qp *qa, *qb;

		vt_pair(t, &vt_usual, &qa, &qb);
		for (unsigned i = 0; i < 4; i++) {
			assert_int_equal(vt_recv(qb, i, NULL, 0), 0);
			assert_int_equal(vt_write_imm(qa, i, IBV_SEND_SIGNALED,
						      0, &sge, 1, vt_addr(&dst),
						      dst.mr->rkey),
					 0);
		}
		while (turns--)
			vt_turn(t);
		if (round & 1)
			vt_destroy(t, qa, qb);
		else
			vt_destroy(t, qb, qa);
		vt_turn(t);
	}
	/* Whatever they left in the queues is nobody's. */
	for (int i = 0; i < 20; i++)
		vt_turn(t);
	t->a.send.head = t->a.send.tail;
	t->b.recv.head = t->b.recv.tail;
}

const struct CMUnitTest test_list[] = {
	vt_test(hundreds_of_qps_share_two_ports),
	vt_test(numbers_are_all_different),
	vt_test(destroying_at_any_moment_harms_nobody),
	{ 0 },
};
