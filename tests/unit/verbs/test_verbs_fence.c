/* SPDX-License-Identifier: Apache-2.0 */
/* Two rules on which fail-over relies: when a responder's QP is in ERR, no more
 * data is placed, and every request that was acknowledged has a completion at
 * the responder. */
#include "vt.h"

#include <stdlib.h>

#define BIG (1u << 20)

vt_pair_test(a_queue_pair_in_error_places_no_data)
{
	struct vt_mem src = vt_mem(t, &t->a, BIG, VT_LOCAL);
	struct vt_mem dst = vt_mem(t, &t->b, BIG, VT_ALL);
	struct ibv_sge sge = vt_sge(&src, 0, 64);
	uint8_t *before;

	vt_fill(src.p, src.len, 4);
	vt_write(qa, 1, &sge, &dst);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);

	/* Stop the responder while WRITEs are in flight. */
	sge = vt_sge(&src, 0, BIG);
	for (uint64_t id = 2; id < 6; id++)
		vt_write(qa, id, &sge, &dst);
	for (int i = 0; i < 3; i++)
		vt_turn(t);
	assert_int_equal(vt_to(t, qb, IBV_QPS_ERR), 0);
	before = malloc(BIG);
	assert_non_null(before);
	memcpy(before, dst.p, BIG);

	for (int i = 0; i < 2000; i++)
		vt_turn(t);
	assert_memory_equal(before, dst.p, BIG);
	free(before);
}

vt_pair_test(acknowledged_writes_have_completions_after_an_error)
{
	struct vt_mem src = vt_mem(t, &t->a, 4096, VT_LOCAL);
	struct vt_mem dst = vt_mem(t, &t->b, 4096, VT_ALL);
	struct ibv_sge sge = vt_sge(&src, 0, 64);

	for (uint64_t id = 1; id <= 4; id++) {
		assert_int_equal(vt_recv(qb, 100 + id, NULL, 0), 0);
		assert_int_equal(vt_write_imm(qa, id, IBV_SEND_SIGNALED,
					      (uint32_t)id, &sge, 1,
					      vt_addr(&dst), dst.mr->rkey),
				 0);
		vt_expect(t, &t->a.send, id, IBV_WC_SUCCESS);
	}
	assert_int_equal(vt_to(t, qb, IBV_QPS_ERR), 0);
	for (uint64_t id = 1; id <= 4; id++)
		vt_expect(t, &t->b.recv, 100 + id, IBV_WC_SUCCESS);
}
