/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a QP: valid transitions, the attributes that each transition
 * needs, and what each state allows. */
#include "vt.h"

#include <errno.h>

static struct ibv_qp_attr rtr_attr(struct vt *t, struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = t->a.info.mtu,
		.dest_qp_num = peer->qp_num,
		.rq_psn = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1,
			     .port_num = t->spec_a.port,
			     .dlid = t->b.info.lid },
	};

	attr.ah_attr.grh.dgid = t->b.info.gid;
	attr.ah_attr.grh.sgid_index = t->a.info.gid_index;
	attr.ah_attr.grh.hop_limit = 64;
	return attr;
}

static const int rtr_bits[] = {
	IBV_QP_AV,     IBV_QP_PATH_MTU,		  IBV_QP_DEST_QPN,
	IBV_QP_RQ_PSN, IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER,
};
static const int rts_bits[] = {
	IBV_QP_TIMEOUT, IBV_QP_RETRY_CNT,	 IBV_QP_RNR_RETRY,
	IBV_QP_SQ_PSN,	IBV_QP_MAX_QP_RD_ATOMIC,
};
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static int all(const int *bits, size_t n)
{
	int mask = IBV_QP_STATE;

	for (size_t i = 0; i < n; i++)
		mask |= bits[i];
	return mask;
}

vt_test(a_new_qp_is_in_reset_and_refuses_requests)
{
	struct ibv_qp *qp = vt_qp(t, &t->a, &vt_usual);

	assert_int_equal(vt_state(t, qp), IBV_QPS_RESET);
	assert_int_not_equal(vt_send(qp, IBV_WR_SEND, 1, 0, NULL, 0), 0);
	assert_int_not_equal(vt_recv(qp, 1, NULL, 0), 0);
	assert_true(qp->qp_num > 1);
}

vt_test(only_rts_can_send_and_init_accepts_receives)
{
	struct ibv_qp *qa = vt_qp(t, &t->a, &vt_usual);
	struct ibv_qp *qb = vt_qp(t, &t->b, &vt_usual);

	assert_int_equal(vt_to_init(t, qa, VT_ALL), 0);
	assert_int_equal(vt_recv(qa, 1, NULL, 0), 0);
	assert_int_not_equal(vt_send(qa, IBV_WR_SEND, 1, 0, NULL, 0), 0);
	assert_int_equal(vt_to_rtr(t, qa, &t->b, qb->qp_num, 1, &vt_usual), 0);
	assert_int_not_equal(vt_send(qa, IBV_WR_SEND, 1, 0, NULL, 0), 0);
}

vt_test(every_attribute_of_rtr_is_required)
{
	struct ibv_qp *qa = vt_qp(t, &t->a, &vt_usual);
	struct ibv_qp *qb = vt_qp(t, &t->b, &vt_usual);
	struct ibv_qp_attr attr = rtr_attr(t, qb);
	int mask = all(rtr_bits, COUNT(rtr_bits));

	assert_int_equal(vt_to_init(t, qa, VT_ALL), 0);
	for (size_t i = 0; i < COUNT(rtr_bits); i++) {
		assert_int_equal(
			t->v->modify_qp(qa, &attr, mask & ~rtr_bits[i]),
			-EINVAL);
		assert_int_equal(vt_state(t, qa), IBV_QPS_INIT);
	}
	assert_int_equal(t->v->modify_qp(qa, &attr, mask | IBV_QP_SQ_PSN),
			 -EINVAL);
	assert_int_equal(t->v->modify_qp(qa, &attr, mask), 0);
	assert_int_equal(vt_state(t, qa), IBV_QPS_RTR);
}

vt_test(every_attribute_of_rts_is_required)
{
	struct ibv_qp *qa = vt_qp(t, &t->a, &vt_usual);
	struct ibv_qp *qb = vt_qp(t, &t->b, &vt_usual);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .sq_psn = 3,
				    .max_rd_atomic = 1 };
	int mask = all(rts_bits, COUNT(rts_bits));

	assert_int_equal(vt_to_init(t, qa, VT_ALL), 0);
	assert_int_equal(vt_to_rtr(t, qa, &t->b, qb->qp_num, 1, &vt_usual), 0);
	for (size_t i = 0; i < COUNT(rts_bits); i++)
		assert_int_equal(
			t->v->modify_qp(qa, &attr, mask & ~rts_bits[i]),
			-EINVAL);
	assert_int_equal(t->v->modify_qp(qa, &attr, mask | IBV_QP_DEST_QPN),
			 -EINVAL);
	assert_int_equal(t->v->modify_qp(qa, &attr, mask), 0);
}

vt_test(no_state_can_be_skipped)
{
	struct ibv_qp *qa = vt_qp(t, &t->a, &vt_usual);
	struct ibv_qp *qb = vt_qp(t, &t->b, &vt_usual);
	uint32_t dest = qb->qp_num;

	assert_int_equal(vt_to(t, qa, IBV_QPS_ERR), -EINVAL);
	assert_int_equal(vt_state(t, qa), IBV_QPS_RESET);
	assert_true(vt_to_rtr(t, qa, &t->b, dest, 1, &vt_usual) < 0);
	assert_true(vt_to_rts(t, qa, 1, &vt_usual) < 0);
	assert_int_equal(vt_to_init(t, qa, VT_ALL), 0);
	assert_true(vt_to_rts(t, qa, 1, &vt_usual) < 0);
	assert_int_equal(vt_to_rtr(t, qa, &t->b, dest, 1, &vt_usual), 0);
	assert_true(vt_to_init(t, qa, VT_ALL) < 0);
	assert_int_equal(vt_to(t, qa, IBV_QPS_ERR), 0);
	assert_true(vt_to_init(t, qa, VT_ALL) < 0);
	assert_true(vt_to_rts(t, qa, 1, &vt_usual) < 0);
	assert_int_equal(vt_to(t, qa, IBV_QPS_RESET), 0);
	assert_int_equal(vt_to_init(t, qa, VT_ALL), 0);
}

vt_test(impossible_values_are_refused)
{
	struct ibv_qp *qa = vt_qp(t, &t->a, &vt_usual);
	struct ibv_qp *qb = vt_qp(t, &t->b, &vt_usual);
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 99 };
	struct ibv_qp_attr attr = rtr_attr(t, qb);
	int mask = all(rtr_bits, COUNT(rtr_bits));

	assert_true(t->v->modify_qp(qa, &init,
				    IBV_QP_STATE | IBV_QP_PKEY_INDEX |
					    IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) <
		    0);
	assert_int_equal(vt_to_init(t, qa, VT_ALL), 0);
	attr.path_mtu = (enum ibv_mtu)9;
	assert_true(t->v->modify_qp(qa, &attr, mask) < 0);
	assert_int_equal(vt_state(t, qa), IBV_QPS_INIT);
}

vt_pair_test(query_returns_the_attributes_that_were_set)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	assert_int_equal(t->v->query_qp(qa, &attr, VT_QUERY, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.dest_qp_num, qb->qp_num);
	assert_int_equal(attr.timeout, vt_usual.timeout);
	assert_int_equal(attr.retry_cnt, vt_usual.retry_cnt);
	assert_int_equal(attr.rnr_retry, vt_usual.rnr_retry);
	assert_true(attr.cap.max_send_wr >= vt_usual.send_wr);
	assert_true(attr.cap.max_recv_wr >= vt_usual.recv_wr);
	assert_true(attr.cap.max_send_sge >= vt_usual.sge);
	assert_true(attr.cap.max_inline_data >= vt_usual.inline_data);
	assert_ptr_equal(init.send_cq, t->a.send.cq);
	assert_int_equal(t->v->query_qp(qa, &attr, ~0, &init), -EOPNOTSUPP);
}

vt_test(objects_in_use_cannot_be_destroyed)
{
	struct vt_opt o = vt_usual;

	o.srq = vt_srq(t, &t->a, 16);
	vt_qp(t, &t->a, &o);
	assert_int_equal(t->v->destroy_cq(t->a.send.cq), -EBUSY);
	assert_int_equal(t->v->destroy_cq(t->a.recv.cq), -EBUSY);
	assert_int_equal(t->v->dealloc_pd(t->a.pd), -EBUSY);
	assert_int_equal(t->v->destroy_srq(o.srq), -EBUSY);
}

static void exchange(struct vt *t, struct ibv_qp *qa, struct ibv_qp *qb)
{
	assert_int_equal(vt_recv(qb, 21, NULL, 0), 0);
	assert_int_equal(vt_recv(qa, 22, NULL, 0), 0);
	assert_int_equal(vt_send_imm(qa, 23, 1, NULL, 0), 0);
	assert_int_equal(vt_send_imm(qb, 24, 2, NULL, 0), 0);
	vt_expect(t, &t->b.recv, 21, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.recv, 22, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 23, IBV_WC_SUCCESS);
	vt_expect(t, &t->b.send, 24, IBV_WC_SUCCESS);
}

vt_pair_test(a_pair_can_be_reset_and_connected_again)
{
	for (int i = 0; i < 5; i++) {
		exchange(t, qa, qb);
		if (i & 1) {
			assert_int_equal(vt_to(t, qb, IBV_QPS_ERR), 0);
			assert_int_equal(vt_to(t, qa, IBV_QPS_ERR), 0);
		}
		assert_int_equal(vt_to(t, qa, IBV_QPS_RESET), 0);
		assert_int_equal(vt_to(t, qb, IBV_QPS_RESET), 0);
		vt_connect(t, qa, qb, &vt_usual);
	}
	exchange(t, qa, qb);
}

static void never_connects(struct vt *t, int turns_in_rtr)
{
	struct vt_opt o = vt_usual;
	struct ibv_qp *qa, *qb;

	o.timeout = 14;
	o.retry_cnt = 2;
	qa = vt_qp(t, &t->a, &o);
	qb = vt_qp(t, &t->b, &o);
	assert_int_equal(vt_to_init(t, qa, VT_ALL), 0);
	assert_int_equal(vt_to_init(t, qb, VT_ALL), 0);
	assert_int_equal(vt_to_rtr(t, qa, &t->b, qb->qp_num, 10, &o), 0);
	assert_int_equal(vt_to_rtr(t, qb, &t->a, qa->qp_num, 20, &o), 0);
	assert_int_equal(vt_to_rts(t, qb, 10, &o), 0);
	vt_quiet(t, &t->b.recv, turns_in_rtr);
	assert_int_equal(vt_to_rts(t, qa, 21, &o), 0);
	assert_int_equal(vt_recv(qb, 1, NULL, 0), 0);
	assert_int_equal(
		vt_send(qa, IBV_WR_SEND, 2, IBV_SEND_SIGNALED, NULL, 0), 0);
	vt_expect(t, &t->a.send, 2, IBV_WC_RETRY_EXC_ERR);
	vt_quiet(t, &t->b.recv, 20);
}

vt_test(qps_with_different_first_psns_never_connect)
{
	never_connects(t, 0);
}

vt_test(a_first_psn_set_after_connecting_is_compared)
{
	never_connects(t, 2000);
}
