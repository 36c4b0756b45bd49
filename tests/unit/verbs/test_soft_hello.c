/* SPDX-License-Identifier: Apache-2.0 */
/* How two QPs in software meet: who dials when, and whose hello counts. */
#include "vt.h"

/* a dials, and its hello lies unread at b while both are reset. */
static void a_hello_from_before_a_reset_keeps_nobody_from_the_next(void **state)
{
	struct vt *t = *state;
	struct ibv_qp *qa, *qb;
	struct ibv_wc wc;

	vt_pair(t, &vt_usual, &qa, &qb);
	for (int i = 0; i < 100; i++)
		assert_int_equal(ibv_poll_cq(t->a.send.cq, 1, &wc), 0);
	assert_int_equal(vt_to(t, qa, IBV_QPS_RESET), 0);
	assert_int_equal(vt_to(t, qb, IBV_QPS_RESET), 0);
	vt_connect(t, qa, qb, &vt_usual);
	vt_nothing(qb, 1);
	vt_expect(t, &t->b.send, 1, IBV_WC_SUCCESS);
}

/* a dials, seldom by now; b has but a little time for its first request. */
static void the_time_to_connect_is_not_charged_to_the_retries(void **state)
{
	struct vt *t = *state;
	struct vt_opt o = vt_quick();
	struct ibv_qp *qa, *qb;
	int64_t until;

	for (int round = 0; round < 5; round++) {
		qa = vt_qp(t, &t->a, &o);
		qb = vt_qp(t, &t->b, &o);
		assert_int_equal(vt_to_init(t, qa, VT_ALL), 0);
		assert_int_equal(vt_to_init(t, qb, VT_ALL), 0);
		assert_int_equal(vt_to_rtr(t, qa, &t->b, qb->qp_num, 3, &o), 0);
		assert_int_equal(vt_to_rts(t, qa, 4, &o), 0);
		for (until = vt_ms() + 130; vt_ms() < until;)
			vt_turn(t);
		assert_int_equal(vt_to_rtr(t, qb, &t->a, qa->qp_num, 4, &o), 0);
		assert_int_equal(vt_to_rts(t, qb, 3, &o), 0);
		vt_nothing(qb, 1);
		vt_expect(t, &t->b.send, 1, IBV_WC_SUCCESS);
		vt_destroy(t, qa, qb);
	}
}

const struct CMUnitTest test_list[] = {
	vt_test(a_hello_from_before_a_reset_keeps_nobody_from_the_next),
	vt_test(the_time_to_connect_is_not_charged_to_the_retries),
	{ 0 },
};
