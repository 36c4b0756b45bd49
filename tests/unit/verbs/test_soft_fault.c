/* SPDX-License-Identifier: Apache-2.0 */
/* Injected faults of the software HCA. */
#include "vt.h"

#include "verbs/soft/soft.h"

static void set(struct vt_end *e, struct mpib_soft_fault fault)
{
	assert_int_equal(mpib_soft_set_fault(e->ctx, &fault), 0);
}

static void heal(struct vt *t)
{
	set(&t->a, (struct mpib_soft_fault){ 0 });
	set(&t->b, (struct mpib_soft_fault){ 0 });
}

static uint8_t port_state(struct vt *t, struct vt_end *e)
{
	struct mpib_port_info info;

	assert_int_equal(t->v->query_port(e->ctx, 1, &info), 0);
	return info.state;
}

vt_test(a_black_hole_is_silent_and_ends_in_retry_exceeded)
{
	struct vt_opt o = vt_quick();
	struct ibv_qp *qa, *qb;

	vt_pair(t, &o, &qa, &qb);
	assert_int_equal(vt_recv(qb, 1, NULL, 0), 0);
	set(&t->a, (struct mpib_soft_fault){ .black_hole = 1 });
	assert_int_equal(vt_send_imm(qa, 3, 3, NULL, 0), 0);
	vt_expect(t, &t->a.send, 3, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(port_state(t, &t->a), IBV_PORT_ACTIVE);
	assert_int_equal(t->b.recv.head, t->b.recv.tail);
	heal(t);
}
