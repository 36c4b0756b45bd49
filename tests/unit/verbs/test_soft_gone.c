/* SPDX-License-Identifier: Apache-2.0 */
/* Software HCA devices that fail for good, and faults from a file. */
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

static const struct mpib_rail_spec device = { .provider = MPIB_PROVIDER_SOFT,
					      .name = "127.0.0.77",
					      .port = 1 };

static int setup(void **state)
{
	assert_int_equal(scratch_make(NULL), 0);
	return setenv("MPIB_SOFT_FAULTS", scratch, 1);
}

static int teardown(void **state)
{
	unsetenv("MPIB_SOFT_FAULTS");
	return scratch_remove(NULL);
}

/* Make the turn in which the context reads its file again. */
static void look(struct ibv_context *c)
{
	struct soft_ctx *ctx = to_ctx(c);
	uint64_t at = ctx->faults_at;

	while (ctx->faults_at == at) {
		usleep(1000);
		soft_turn(ctx);
	}
}

fixture_test(a_device_is_gone_while_its_file_says_so)
{
	struct ibv_context *old, *now;
	struct ibv_async_event ev;

	assert_int_equal(mpib_verbs_soft.open(&device, &old), 0);
	scratch_write(device.name, "gone\n");
	look(old);
	assert_int_equal(mpib_verbs_soft.get_async_event(old, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_DEVICE_FATAL);
	mpib_verbs_soft.ack_async_event(&ev);
	assert_int_equal(mpib_verbs_soft.open(&device, &now), -ENODEV);
	assert_int_equal(unlink(scratch_path(device.name)), 0);
	assert_int_equal(mpib_verbs_soft.open(&device, &now), 0);
	assert_int_equal(mpib_verbs_soft.close(now), 0);
	assert_int_equal(mpib_verbs_soft.close(old), 0);
}

fixture_test(a_file_sets_the_faults_of_a_device)
{
	const struct mpib_soft_fault *fault;
	struct mpib_port_info info;
	struct ibv_context *c;

	scratch_write(device.name, "link-down sleet rate=0\n");
	assert_int_equal(mpib_verbs_soft.open(&device, &c), 0);
	fault = &to_ctx(c)->fault;
	assert_int_equal(mpib_verbs_soft.query_port(c, 1, &info), 0);
	assert_int_equal(info.state, IBV_PORT_DOWN);
	assert_int_equal(fault->rate_bytes_per_s, 0);
	scratch_write(device.name, "rate=8 delay=5");
	look(c);
	assert_int_equal(mpib_verbs_soft.query_port(c, 1, &info), 0);
	assert_int_equal(info.state, IBV_PORT_ACTIVE);
	assert_int_equal(fault->rate_bytes_per_s, 1000000);
	assert_int_equal(fault->delay_ns, 5000);
	assert_int_equal(unlink(scratch_path(device.name)), 0);
	look(c);
	assert_int_equal(fault->rate_bytes_per_s, 0);
	assert_int_equal(mpib_verbs_soft.close(c), 0);
}
