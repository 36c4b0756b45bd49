/* SPDX-License-Identifier: Apache-2.0 */
/* A port that goes down and comes back: the events, and what happens to
 * messages. */
#include "vt.h"

static void port_is(struct vt *t, enum ibv_port_state state)
{
	struct mpib_port_info info;

	assert_int_equal(t->v->query_port(t->a.ctx, t->spec_a.port, &info), 0);
	assert_int_equal(info.state, state);
}

/* Return the next event about the state of the port. Skip events about the
 * port's addresses. */
static enum ibv_event_type port_event(struct vt *t)
{
	enum ibv_event_type type;

	do
		type = vt_event(t, &t->a);
	while (type == IBV_EVENT_GID_CHANGE);
	return type;
}

static void cut(struct vt *t)
{
	vt_link(t, &t->a, false);
	assert_int_equal(port_event(t), IBV_EVENT_PORT_ERR);
	port_is(t, IBV_PORT_DOWN);
}

static void join(struct vt *t)
{
	vt_link(t, &t->a, true);
	assert_int_equal(port_event(t), IBV_EVENT_PORT_ACTIVE);
	port_is(t, IBV_PORT_ACTIVE);
}

static void exchange(struct vt *t, struct ibv_qp *qa, struct ibv_qp *qb)
{
	assert_int_equal(vt_recv(qb, 1, NULL, 0), 0);
	assert_int_equal(vt_send_imm(qa, 2, 3, NULL, 0), 0);
	vt_expect(t, &t->b.recv, 1, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 2, IBV_WC_SUCCESS);
}

vt_test(a_link_that_comes_back_in_time_loses_no_message)
{
	struct vt_opt o = vt_usual;
	struct ibv_qp *qa, *qb;

	vt_link(t, &t->a, true);
	o.timeout = 18; /* seven retries take one second */
	vt_pair(t, &o, &qa, &qb);
	exchange(t, qa, qb);
	assert_int_equal(vt_recv(qb, 1, NULL, 0), 0);
	cut(t);
	assert_int_equal(vt_send_imm(qa, 2, 3, NULL, 0), 0);
	vt_quiet(t, &t->b.recv, 20);
	join(t);
	vt_expect(t, &t->b.recv, 1, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 2, IBV_WC_SUCCESS);
}

vt_test(a_link_that_stays_down_ends_in_retry_exceeded)
{
	struct vt_opt o = vt_usual;
	struct ibv_qp *qa, *qb;

	vt_link(t, &t->a, true);
	o.timeout = 14;
	o.retry_cnt = 1;
	vt_pair(t, &o, &qa, &qb);
	exchange(t, qa, qb);
	cut(t);
	assert_int_equal(vt_send_imm(qa, 3, 3, NULL, 0), 0);
	assert_int_equal(vt_send_imm(qa, 4, 3, NULL, 0), 0);
	vt_expect(t, &t->a.send, 3, IBV_WC_RETRY_EXC_ERR);
	vt_expect(t, &t->a.send, 4, IBV_WC_WR_FLUSH_ERR);
	join(t);
	/* The port works again, but the pair must be reset and connected
	 * again. */
	assert_int_equal(vt_to(t, qa, IBV_QPS_RESET), 0);
	assert_int_equal(vt_to(t, qb, IBV_QPS_RESET), 0);
	vt_connect(t, qa, qb, &vt_usual);
	exchange(t, qa, qb);
}
