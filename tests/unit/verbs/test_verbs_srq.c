/* SPDX-License-Identifier: Apache-2.0 */
/* Shared receive queues: sharing, the limit event, RNR, full queues, and
 * errors. */
#include "vt.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

vt_test(several_qps_use_receives_in_the_order_of_their_posts)
{
	enum {
		N = 4
	};
	struct vt_opt o = vt_usual;
	struct ibv_qp *qa[N], *qb[N];

	o.srq = vt_srq(t, &t->b, 64);
	for (int i = 0; i < N; i++) {
		qb[i] = vt_qp(t, &t->b, &o);
		o.srq = qb[i]->srq;
		qa[i] = vt_qp(t, &t->a, &vt_usual);
		vt_connect(t, qa[i], qb[i], &vt_usual);
	}
	for (unsigned i = 0; i < 3 * N; i++)
		assert_int_equal(vt_srq_recv(o.srq, 500 + i, NULL, 0), 0);
	for (unsigned i = 0; i < 3 * N; i++) {
		struct ibv_wc wc;

		assert_int_equal(vt_send_imm(qa[i % N], i, 70 + i, NULL, 0), 0);
		wc = vt_expect(t, &t->b.recv, 500 + i, IBV_WC_SUCCESS);
		assert_int_equal(ntohl(wc.imm_data), 70 + i);
		assert_int_equal(wc.qp_num, qb[i % N]->qp_num);
		vt_expect(t, &t->a.send, i, IBV_WC_SUCCESS);
	}
}

static void pair_on_srq(struct vt *t, struct vt_opt *o, uint32_t wr,
			struct ibv_qp **qa, struct ibv_qp **qb)
{
	struct vt_opt plain = *o;

	o->srq = vt_srq(t, &t->b, wr);
	*qb = vt_qp(t, &t->b, o);
	*qa = vt_qp(t, &t->a, &plain);
	vt_connect(t, *qa, *qb, o);
}

static void consume(struct vt *t, struct ibv_qp *qa)
{
	struct ibv_wc wc;

	assert_int_equal(vt_send_imm(qa, 1, 0, NULL, 0), 0);
	wc = vt_wait(t, &t->b.recv);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
}

static void set_limit(struct vt *t, struct ibv_srq *srq, uint32_t limit)
{
	struct ibv_srq_attr attr = { .srq_limit = limit };

	assert_int_equal(t->v->modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
}

vt_test(the_limit_event_comes_once_when_fewer_receives_are_left)
{
	struct vt_opt o = vt_usual;
	struct ibv_srq_attr attr;
	struct ibv_qp *qa, *qb;

	pair_on_srq(t, &o, 64, &qa, &qb);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(vt_srq_recv(o.srq, i, NULL, 0), 0);
	consume(t, qa);
	assert_true(vt_no_event(t, &t->b));
	set_limit(t, o.srq, 5);
	assert_int_equal(t->v->query_srq(o.srq, &attr), 0);
	assert_int_equal(attr.srq_limit, 5);
	consume(t, qa);
	consume(t, qa);
	assert_true(vt_no_event(t, &t->b));
	consume(t, qa);
	assert_int_equal(vt_event(t, &t->b), IBV_EVENT_SRQ_LIMIT_REACHED);
	consume(t, qa);
	assert_true(vt_no_event(t, &t->b));
	assert_int_equal(t->v->query_srq(o.srq, &attr), 0);
	assert_int_equal(attr.srq_limit, 0);
	set_limit(t, o.srq, 2);
	consume(t, qa);
	consume(t, qa);
	assert_int_equal(vt_event(t, &t->b), IBV_EVENT_SRQ_LIMIT_REACHED);
}

vt_test(an_empty_srq_makes_the_sender_wait)
{
	struct vt_opt o = vt_usual;
	struct ibv_qp *qa, *qb;

	pair_on_srq(t, &o, 16, &qa, &qb);
	assert_int_equal(vt_send_imm(qa, 1, 4, NULL, 0), 0);
	vt_quiet(t, &t->a.send, 100);
	assert_int_equal(vt_srq_recv(o.srq, 2, NULL, 0), 0);
	vt_expect(t, &t->b.recv, 2, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
}

vt_test(a_full_srq_returns_the_refused_request)
{
	struct ibv_srq *srq = vt_srq(t, &t->b, 16);
	struct ibv_recv_wr wr[2] = { { 0 }, { 0 } }, *bad = NULL;
	struct ibv_srq_attr attr;
	unsigned n = 0;

	assert_int_equal(t->v->query_srq(srq, &attr), 0);
	while (n < 65536 && !vt_srq_recv(srq, n, NULL, 0))
		n++;
	assert_true(n >= 16);
	wr[0].next = &wr[1];
	assert_int_equal(ibv_post_srq_recv(srq, wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr[0]);
}

vt_test(a_qp_in_error_reports_its_last_receive)
{
	struct vt_opt o = vt_usual;
	struct ibv_qp *qa, *qb;

	pair_on_srq(t, &o, 16, &qa, &qb);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(vt_srq_recv(o.srq, i, NULL, 0), 0);
	consume(t, qa);
	assert_int_equal(vt_to(t, qb, IBV_QPS_ERR), 0);
	if (t->rxe)
		assert_true(vt_no_event(t, &t->b));
	else
		assert_int_equal(vt_event(t, &t->b),
				 IBV_EVENT_QP_LAST_WQE_REACHED);
	/* Unused receives stay in the shared queue. */
	vt_quiet(t, &t->b.recv, 20);
}

vt_test(a_qp_on_an_srq_has_no_receive_queue)
{
	struct vt_opt o = vt_usual;
	struct ibv_qp *qa, *qb;

	pair_on_srq(t, &o, 16, &qa, &qb);
	/* librxe would write to a queue that does not exist. */
	if (!t->rxe)
		assert_int_not_equal(vt_recv(qb, 1, NULL, 0), 0);
}

vt_test(a_receive_belongs_to_the_domain_of_its_srq)
{
	struct vt_mem foreign = vt_mem(t, &t->b, 64, VT_LOCAL);
	struct ibv_srq_init_attr attr = { .attr = { 8, 2, 0 } };
	struct vt_mem m = { .len = 64, .p = calloc(1, 64) };
	struct vt_opt o = vt_usual;
	struct ibv_qp *qa, *qb;
	struct ibv_sge sge;
	struct ibv_pd *pd;

	assert_non_null(m.p);
	assert_int_equal(t->v->alloc_pd(t->b.ctx, &pd), 0);
	assert_int_equal(
		t->v->reg_mr(pd, m.p, 64, vt_addr(&m), VT_LOCAL, &m.mr), 0);
	assert_int_equal(t->v->create_srq(pd, &attr, &o.srq), 0);
	qb = vt_qp(t, &t->b, &o);
	o.srq = NULL;
	qa = vt_qp(t, &t->a, &o);
	vt_connect(t, qa, qb, &o);
	sge = vt_sge(&m, 0, 64);
	assert_int_equal(vt_srq_recv(qb->srq, 1, &sge, 1), 0);
	assert_int_equal(vt_send_imm(qa, 2, 3, NULL, 0), 0);
	vt_expect(t, &t->b.recv, 1, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 2, IBV_WC_SUCCESS);
	/* A region of the QP's own domain must not be accepted. */
	if (t->soft) {
		sge = vt_sge(&foreign, 0, 64);
		assert_int_equal(vt_srq_recv(qb->srq, 4, &sge, 1), 0);
		assert_int_equal(vt_send_imm(qa, 5, 3, NULL, 0), 0);
		vt_expect(t, &t->b.recv, 4, IBV_WC_LOC_PROT_ERR);
		vt_expect(t, &t->a.send, 5, IBV_WC_REM_OP_ERR);
	}
	o.srq = qb->srq;
	vt_destroy(t, qa, qb);
	assert_int_equal(t->v->destroy_srq(o.srq), 0);
	assert_int_equal(t->v->dereg_mr(m.mr), 0);
	assert_int_equal(t->v->dealloc_pd(pd), 0);
	free(m.p);
}
