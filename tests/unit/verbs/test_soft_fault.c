/* SPDX-License-Identifier: Apache-2.0 */
/* The software HCA's fault points. */
#include "vt.h"

#include "verbs/soft/ctx.h"

#include <arpa/inet.h>

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
	struct vt *t = *state;
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

/* What waited for it meanwhile goes on when it ends. */
vt_test(a_hole_for_one_address_leaves_the_others)
{
	struct vt *t = *state;
	struct vt_opt o = vt_usual;
	uint32_t there, elsewhere = htonl(0x7f000001);
	struct ibv_qp *qa, *qb;

	o.timeout = 23;
	vt_pair(t, &o, &qa, &qb);
	there = mpib_soft_peer(qa);
	assert_int_not_equal(there, 0);
	assert_int_not_equal(there, elsewhere);
	set(&t->a,
	    (struct mpib_soft_fault){ .black_hole = 1, .only = elsewhere });
	vt_nothing(qa, 1);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	set(&t->a, (struct mpib_soft_fault){ .black_hole = 1, .only = there });
	vt_nothing(qa, 2);
	if (!t->same) /* in one context there is no wire */
		vt_quiet(t, &t->a.send, 1000);
	heal(t);
	vt_expect(t, &t->a.send, 2, IBV_WC_SUCCESS);
}

/* By either way into a context: a socket, and a QP of the same context. */
vt_test(what_is_late_is_placed_by_a_read_of_its_device)
{
	struct vt *t = *state;
	struct vt_mem from = vt_mem(t, &t->a, 200000, VT_LOCAL);
	struct vt_mem to = vt_mem(t, &t->b, 200000, VT_ALL);
	struct vt_mem shut =
		vt_mem(t, &t->b, 4096, VT_LOCAL | IBV_ACCESS_REMOTE_WRITE);
	struct ibv_sge sge = vt_sge(&from, 0, 200000);
	struct ibv_sge some = vt_sge(&from, 0, 4096);
	struct ibv_qp *qa, *qb;

	vt_fill(from.p, from.len, 11);
	memset(to.p, 0, to.len);
	vt_pair(t, &vt_usual, &qa, &qb);
	set(&t->b, (struct mpib_soft_fault){ .late = 1 });
	assert_int_equal(vt_recv(qb, 1, NULL, 0), 0);
	assert_int_equal(vt_write_imm(qa, 1, IBV_SEND_SIGNALED, 5, &sge, 1,
				      vt_addr(&to), to.mr->rkey),
			 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	vt_expect(t, &t->b.recv, 1, IBV_WC_SUCCESS);
	for (size_t i = 0; i < to.len; i++)
		assert_int_equal(to.p[i], 0);
	assert_false(TAILQ_EMPTY(&to_ctx(t->b.ctx)->late));
	/* What may not be read is never late. */
	vt_write(qa, 2, &some, &shut);
	vt_expect(t, &t->a.send, 2, IBV_WC_SUCCESS);
	assert_memory_equal(shut.p, from.p, 4096);
	assert_false(TAILQ_EMPTY(&to_ctx(t->b.ctx)->late));
	assert_int_equal(vt_rdma(qa, IBV_WR_RDMA_READ, 3, IBV_SEND_SIGNALED,
				 &some, 1, vt_addr(&to) + 100, to.mr->rkey),
			 0);
	vt_expect(t, &t->a.send, 3, IBV_WC_SUCCESS);
	assert_true(TAILQ_EMPTY(&to_ctx(t->b.ctx)->late));
	assert_memory_equal(to.p + 4196, from.p + 4196, to.len - 4196);
	heal(t);
}
