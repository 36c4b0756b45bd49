/* SPDX-License-Identifier: Apache-2.0 */
/* SQD: what was begun ends, what is posted later waits; and the events of a QP
 * that is established, drained, or without room for its completions. */
#include "vt.h"

enum {
	N = 24,
	SIZE = 300000,
	SOME = 200 /* turns */
};

struct fixture {
	struct vt_mem src, dst;
	struct ibv_qp *qa, *qb;
};

/* Linux 6.1's soft-RoCE tells neither that a queue is drained nor that the peer
 * is there. */
static void need_events(const struct vt *t)
{
	if (t->rxe)
		skip();
}

static void begin(struct vt *t, struct fixture *f)
{
	need_events(t);
	f->src = vt_mem(t, &t->a, SIZE, VT_LOCAL);
	f->dst = vt_mem(t, &t->b, SIZE, VT_ALL);
	vt_fill(f->src.p, SIZE, 3);
	vt_pair(t, &vt_usual, &f->qa, &f->qb);
}

static void stop(struct vt *t, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD,
				    .en_sqd_async_notify = 1 };

	assert_int_equal(
		t->v->modify_qp(qp, &attr,
				IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
		0);
}

static void post(struct fixture *f, uint64_t id, size_t len)
{
	struct ibv_sge sge = vt_sge(&f->src, 0, len);

	vt_write(f->qa, id, &sge, &f->dst);
}

static bool draining(struct vt *t, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	assert_int_equal(t->v->query_qp(qp, &attr, VT_QUERY, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_SQD);
	return attr.sq_draining;
}

/* Only SQD shows whether a request that does not end was begun. */
static void until_begun(struct vt *t, struct ibv_qp *qp)
{
	int64_t late = vt_ms() + 60000;

	for (bool begun = false; !begun;) {
		vt_quiet(t, &t->a.send, SOME);
		assert_int_equal(vt_to(t, qp, IBV_QPS_SQD), 0);
		begun = draining(t, qp);
		assert_int_equal(vt_to(t, qp, IBV_QPS_RTS), 0);
		assert_true(vt_ms() < late);
	}
}

vt_test(what_is_posted_in_sqd_waits_for_rts)
{
	struct vt *t = *state;
	struct fixture f;

	begin(t, &f);
	stop(t, f.qa);
	assert_int_equal(vt_event(t, &t->a), IBV_EVENT_SQ_DRAINED);
	assert_false(draining(t, f.qa));
	post(&f, 1, 100);
	post(&f, 2, SIZE);
	vt_quiet(t, &t->a.send, SOME);
	assert_int_equal(f.dst.p[0], 0);
	assert_int_equal(vt_to(t, f.qa, IBV_QPS_RTS), 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 2, IBV_WC_SUCCESS);
	assert_memory_equal(f.src.p, f.dst.p, SIZE);
	assert_true(vt_no_event(t, &t->a));
}

vt_test(what_was_begun_ends_in_sqd_and_the_rest_later)
{
	struct vt *t = *state;
	struct fixture f;
	uint64_t done = 0;
	struct ibv_wc wc;

	begin(t, &f);
	for (uint64_t id = 0; id < N; id++)
		post(&f, id, SIZE);
	vt_turn(t);
	stop(t, f.qa);
	assert_int_equal(vt_event(t, &t->a), IBV_EVENT_SQ_DRAINED);
	assert_false(draining(t, f.qa));
	for (int i = 0; i < SOME; i++)
		while (vt_try(t, &t->a.send, &wc)) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_int_equal(wc.wr_id, done++);
		}
	assert_int_equal(vt_to(t, f.qa, IBV_QPS_RTS), 0);
	for (; done < N; done++)
		vt_expect(t, &t->a.send, done, IBV_WC_SUCCESS);
}

vt_test(a_request_that_finds_no_receive_goes_on_in_sqd)
{
	struct vt *t = *state;
	struct fixture f;

	begin(t, &f);
	assert_int_equal(
		vt_send(f.qa, IBV_WR_SEND, 1, IBV_SEND_SIGNALED, NULL, 0), 0);
	until_begun(t, f.qa);
	stop(t, f.qa);
	assert_int_equal(
		vt_send(f.qa, IBV_WR_SEND, 2, IBV_SEND_SIGNALED, NULL, 0), 0);
	assert_true(draining(t, f.qa));
	assert_true(vt_no_event(t, &t->a));
	assert_int_equal(vt_recv(f.qb, 3, NULL, 0), 0);
	assert_int_equal(vt_recv(f.qb, 4, NULL, 0), 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	vt_expect(t, &t->b.recv, 3, IBV_WC_SUCCESS);
	assert_int_equal(vt_event(t, &t->a), IBV_EVENT_SQ_DRAINED);
	vt_quiet(t, &t->b.recv, SOME);
	assert_int_equal(vt_to(t, f.qa, IBV_QPS_RTS), 0);
	vt_expect(t, &t->a.send, 2, IBV_WC_SUCCESS);
	vt_expect(t, &t->b.recv, 4, IBV_WC_SUCCESS);
}

vt_test(a_qp_in_sqd_serves_its_peer)
{
	struct vt *t = *state;
	struct fixture f;

	begin(t, &f);
	assert_int_equal(vt_to(t, f.qa, IBV_QPS_SQD), 0);
	assert_true(vt_no_event(t, &t->a));
	assert_int_equal(vt_recv(f.qa, 5, NULL, 0), 0);
	assert_int_equal(
		vt_send(f.qb, IBV_WR_SEND, 6, IBV_SEND_SIGNALED, NULL, 0), 0);
	vt_expect(t, &t->a.recv, 5, IBV_WC_SUCCESS);
	vt_expect(t, &t->b.send, 6, IBV_WC_SUCCESS);
}

vt_test(sqd_ends_in_error_or_reset_as_rts_does)
{
	struct vt *t = *state;
	struct fixture f;

	begin(t, &f);
	stop(t, f.qa);
	assert_int_equal(vt_event(t, &t->a), IBV_EVENT_SQ_DRAINED);
	post(&f, 1, 100);
	assert_int_equal(vt_to(t, f.qa, IBV_QPS_ERR), 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(vt_to(t, f.qa, IBV_QPS_RESET), 0);
	assert_int_equal(vt_to(t, f.qb, IBV_QPS_RESET), 0);
	vt_connect(t, f.qa, f.qb, &vt_usual);
	stop(t, f.qa);
	assert_int_equal(vt_event(t, &t->a), IBV_EVENT_SQ_DRAINED);
	post(&f, 2, 100);
	assert_int_equal(vt_to(t, f.qa, IBV_QPS_RESET), 0);
	assert_int_equal(vt_to(t, f.qb, IBV_QPS_RESET), 0);
	vt_connect(t, f.qa, f.qb, &vt_usual);
	post(&f, 3, 100);
	vt_expect(t, &t->a.send, 3, IBV_WC_SUCCESS);
}

vt_test(only_rts_leads_to_sqd)
{
	struct vt *t = *state;
	struct ibv_qp *qp = vt_qp(t, &t->a, &vt_usual);

	assert_true(vt_to(t, qp, IBV_QPS_SQD) < 0);
	assert_int_equal(vt_to_init(t, qp, VT_ALL), 0);
	assert_true(vt_to(t, qp, IBV_QPS_SQD) < 0);
	assert_int_equal(vt_to_rtr(t, qp, &t->b, 999, 1, &vt_usual), 0);
	assert_true(vt_to(t, qp, IBV_QPS_SQD) < 0);
}

vt_test(a_message_before_rts_says_that_the_peer_is_there)
{
	struct vt *t = *state;
	struct ibv_qp *qa = vt_qp(t, &t->a, &vt_usual);
	struct ibv_qp *qb = vt_qp(t, &t->b, &vt_usual);

	need_events(t);
	assert_int_equal(vt_to_init(t, qa, VT_ALL), 0);
	assert_int_equal(vt_to_init(t, qb, VT_ALL), 0);
	assert_int_equal(vt_to_rtr(t, qa, &t->b, qb->qp_num, 20, &vt_usual), 0);
	assert_int_equal(vt_to_rtr(t, qb, &t->a, qa->qp_num, 10, &vt_usual), 0);
	assert_int_equal(vt_to_rts(t, qa, 10, &vt_usual), 0);
	for (uint64_t id = 0; id < 2; id++) {
		assert_int_equal(vt_recv(qb, id, NULL, 0), 0);
		assert_int_equal(vt_send_imm(qa, id, 1, NULL, 0), 0);
		vt_expect(t, &t->b.recv, id, IBV_WC_SUCCESS);
	}
	assert_int_equal(vt_event(t, &t->b), IBV_EVENT_COMM_EST);
	assert_true(vt_no_event(t, &t->b));
	assert_int_equal(vt_to_rts(t, qb, 20, &vt_usual), 0);
}
