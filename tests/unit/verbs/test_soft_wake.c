/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wake-ups that cross what they wake, each in the order that is worst. Both
 * sides at once, on two cores: tests/litmus.
 */
#include "vt.h"

#include "verbs/soft/cq.h"
#include "verbs/soft/ctx.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum {
	OFTEN = 2000
};

static _Atomic bool held, taken, disarming;

void __real_soft_channel_push(struct soft_channel *ch, struct soft_cq *cq);
void __wrap_soft_channel_push(struct soft_channel *ch, struct soft_cq *cq);

/* The CQ is not armed any more, and its event not there yet. */
void __wrap_soft_channel_push(struct soft_channel *ch, struct soft_cq *cq)
{
	if (atomic_exchange(&held, false)) {
		atomic_store(&taken, true);
		while (!atomic_load(&disarming))
			sched_yield();
		for (int i = 0; i < OFTEN; i++)
			sched_yield();
	}
	__real_soft_channel_push(ch, cq);
}

struct flush {
	struct vt *t;
	struct ibv_qp *qp;
	int rc;
};

static void *flush(void *arg)
{
	struct flush *f = arg;

	f->rc = vt_to(f->t, f->qp, IBV_QPS_ERR);
	return NULL;
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void who_cannot_disarm_any_more_finds_the_event(void **state)
{
	struct vt *t = *state;
	struct flush f = { .t = t };
	struct ibv_cq *plain = t->a.recv.cq, *cq, *which;
	struct ibv_comp_channel *ch;
	struct ibv_wc wc;
	pthread_t thread;
	void *ctx;

	assert_int_equal(t->v->create_comp_channel(t->a.ctx, &ch), 0);
	assert_int_equal(fcntl(ch->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(t->v->create_cq(t->a.ctx, 16, NULL, ch, &cq), 0);
	t->a.recv.cq = cq;
	f.qp = vt_qp(t, &t->a, &vt_usual);
	assert_int_equal(vt_to_init(t, f.qp, VT_ALL), 0);
	assert_int_equal(vt_recv(f.qp, 1, NULL, 0), 0);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	atomic_store(&held, true);
	assert_int_equal(pthread_create(&thread, NULL, flush, &f), 0);
	while (!atomic_load(&taken))
		sched_yield();
	atomic_store(&disarming, true);
	assert_true(t->v->disarm_cq(cq, false));
	assert_int_equal(t->v->get_cq_event(ch, &which, &ctx), 0);
	t->v->ack_cq_events(cq, 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(f.rc, 0);
	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
	/* Nothing is left that would end the next sleep. */
	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
	assert_false(readable(ch->fd));
	vt_destroy(t, f.qp, NULL);
	t->a.recv.cq = plain;
	assert_int_equal(t->v->destroy_cq(cq), 0);
	assert_int_equal(t->v->destroy_comp_channel(ch), 0);
}

static void a_turn_leaves_the_kick_that_stops_the_thread(void **state)
{
	struct vt *t = *state;
	struct soft_ctx *ctx = to_ctx(t->a.ctx);

	soft_kick(ctx);
	soft_turn(ctx);
	assert_false(readable(ctx->kick.fd));
	/* As soft_thread_stop(); here there is no thread to heed it. */
	atomic_store(&ctx->stop, 1);
	soft_kick(ctx);
	soft_turn(ctx);
	assert_true(readable(ctx->kick.fd));
	atomic_store(&ctx->stop, 0);
}

static void a_wish_for_any_completion_is_not_narrowed(void **state)
{
	struct vt *t = *state;
	struct ibv_cq *cq = t->a.recv.cq;

	assert_int_equal(ibv_req_notify_cq(cq, 1), 0);
	assert_int_equal(atomic_load(&to_cq(cq)->armed), 2);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_int_equal(ibv_req_notify_cq(cq, 1), 0);
	assert_int_equal(atomic_load(&to_cq(cq)->armed), 1);
	assert_false(t->v->disarm_cq(cq, false));
	assert_true(t->v->disarm_cq(cq, false));
}

const struct CMUnitTest test_list[] = {
	vt_test(who_cannot_disarm_any_more_finds_the_event),
	vt_test(a_turn_leaves_the_kick_that_stops_the_thread),
	vt_test(a_wish_for_any_completion_is_not_narrowed),
	{ 0 },
};
