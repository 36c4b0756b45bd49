/* SPDX-License-Identifier: Apache-2.0 */
/* Software HCA devices that fail for good, or that are hidden. */
#include "vt.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "scratch.h"
#include "verbs/soft/ctx.h"

static void lose(struct vt_end *e)
{
	struct mpib_soft_fault fault = { .gone = 1 };

	assert_int_equal(mpib_soft_set_fault(e->ctx, &fault), 0);
}

vt_test(a_lost_device_has_one_event_and_no_completions)
{
	struct vt *t = *state;
	struct vt_opt o = vt_quick();
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	struct ibv_comp_channel *ch;
	struct mpib_port_info info;
	struct ibv_qp *qa, *qb;
	struct ibv_pd *pd;

	vt_pair(t, &o, &qa, &qb);
	assert_int_equal(vt_recv(qa, 1, NULL, 0), 0);
	lose(&t->a);
	lose(&t->a);
	assert_int_equal(vt_event(t, &t->a), IBV_EVENT_DEVICE_FATAL);
	assert_true(vt_no_event(t, &t->a));
	assert_int_equal(t->v->query_port(t->a.ctx, 1, &info), -EIO);
	assert_int_equal(t->v->alloc_pd(t->a.ctx, &pd), -EIO);
	assert_int_equal(t->v->create_comp_channel(t->a.ctx, &ch), -EIO);
	assert_int_equal(t->v->modify_qp(qa, &err, IBV_QP_STATE), -EIO);
	/* The device accepts requests that never complete, and does not answer
	 * the peer's requests. */
	assert_int_equal(vt_send_imm(qa, 2, 3, NULL, 0), 0);
	assert_int_equal(vt_send_imm(qb, 3, 3, NULL, 0), 0);
	vt_expect(t, &t->b.send, 3, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(t->a.send.head, t->a.send.tail);
	assert_int_equal(t->a.recv.head, t->a.recv.tail);
}

TEST(a_device_is_gone_while_the_directory_has_its_name)
{
	struct mpib_rail_spec spec = { .provider = MPIB_PROVIDER_SOFT,
				       .name = "127.0.0.77",
				       .port = 1 };
	struct ibv_context *old, *now;
	struct ibv_async_event ev;

	assert_int_equal(scratch_make(NULL), 0);
	setenv("MPIB_SOFT_GONE", scratch, 1);
	assert_int_equal(mpib_verbs_soft.open(&spec, &old), 0);
	soft_turn(to_ctx(old));
	scratch_write(spec.name, "");
	soft_turn(to_ctx(old));
	assert_int_equal(mpib_verbs_soft.get_async_event(old, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_DEVICE_FATAL);
	mpib_verbs_soft.ack_async_event(&ev);
	assert_int_equal(mpib_verbs_soft.open(&spec, &now), -ENODEV);
	assert_int_equal(unlink(scratch_path(spec.name)), 0);
	assert_int_equal(mpib_verbs_soft.open(&spec, &now), 0);
	assert_int_equal(mpib_verbs_soft.close(now), 0);
	assert_int_equal(mpib_verbs_soft.close(old), 0);
	unsetenv("MPIB_SOFT_GONE");
	assert_int_equal(scratch_remove(NULL), 0);
}

TEST(a_device_can_be_hidden_from_this_process)
{
	struct mpib_rail_spec spec = { .provider = MPIB_PROVIDER_SOFT,
				       .name = "127.0.0.77",
				       .port = 1 };
	struct ibv_context *old, *now;

	assert_int_equal(mpib_verbs_soft.open(&spec, &old), 0);
	/* The device is not hidden, so this call changes nothing. It must
	 * return true. */
	assert_true(mpib_soft_hide(&spec, false));
	for (unsigned i = 0; i < 100; i++)
		assert_true(mpib_soft_hide(&spec, true));
	assert_int_equal(mpib_verbs_soft.open(&spec, &now), -ENODEV);
	assert_true(mpib_soft_hide(&spec, false));
	assert_int_equal(mpib_verbs_soft.open(&spec, &now), 0);
	assert_int_equal(mpib_verbs_soft.close(now), 0);
	assert_int_equal(mpib_verbs_soft.close(old), 0);
}
