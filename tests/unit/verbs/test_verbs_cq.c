/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion queues and channels: arming, solicited events, overrun, and
 * threads that sleep until the channel's descriptor is readable instead of
 * polling.
 */
#include "vt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

/* A pair of QPs. The receives at end b complete into a CQ with a channel. */
struct fixture {
	struct ibv_comp_channel *ch;
	struct vt_cq plain; /* the usual CQ of end b, which has no channel */
	struct ibv_cq *cq;
	struct ibv_qp *qa, *qb;
};

static void set_nonblock(int fd)
{
	assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK),
			 0);
}

static void begin(struct vt *t, struct fixture *f)
{
	assert_int_equal(t->v->create_comp_channel(t->b.ctx, &f->ch), 0);
	set_nonblock(f->ch->fd);
	assert_int_equal(t->v->create_cq(t->b.ctx, 64, f, f->ch, &f->cq), 0);
	f->plain = t->b.recv;
	t->b.recv.cq = f->cq;
	vt_pair(t, &vt_usual, &f->qa, &f->qb);
}

static void end(struct vt *t, struct fixture *f)
{
	vt_destroy(t, f->qa, f->qb);
	t->b.recv.cq = f->plain.cq;
	assert_int_equal(t->v->destroy_comp_channel(f->ch), -EBUSY);
	assert_int_equal(t->v->destroy_cq(f->cq), 0);
	assert_int_equal(t->v->destroy_comp_channel(f->ch), 0);
}

static int get_event(struct vt *t, struct fixture *f)
{
	struct ibv_cq *cq = NULL;
	void *context = NULL;
	int rc = t->v->get_cq_event(f->ch, &cq, &context);

	if (rc)
		return rc;
	assert_ptr_equal(cq, f->cq);
	assert_ptr_equal(context, f);
	t->v->ack_cq_events(cq, 1);
	return 0;
}

static void wait_event(struct vt *t, struct fixture *f)
{
	int64_t until = vt_ms() + 60000;
	int rc;

	while ((rc = get_event(t, f)) == -EAGAIN) {
		vt_turn(t);
		assert_true(vt_ms() < until);
	}
	assert_int_equal(rc, 0);
}

static void one_message(struct vt *t, struct fixture *f, unsigned flags)
{
	assert_int_equal(vt_recv(f->qb, 1, NULL, 0), 0);
	assert_int_equal(vt_send(f->qa, IBV_WR_SEND, 2,
				 IBV_SEND_SIGNALED | flags, NULL, 0),
			 0);
	vt_expect(t, &t->b.recv, 1, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 2, IBV_WC_SUCCESS);
}

vt_test(an_armed_cq_causes_one_event_and_is_then_disarmed)
{
	struct fixture f;

	begin(t, &f);
	one_message(t, &f, 0);
	assert_int_equal(get_event(t, &f), -EAGAIN);
	assert_int_equal(ibv_req_notify_cq(f.cq, 0), 0);
	one_message(t, &f, 0);
	one_message(t, &f, 0);
	wait_event(t, &f);
	assert_int_equal(get_event(t, &f), -EAGAIN);
	assert_int_equal(ibv_req_notify_cq(f.cq, 0), 0);
	one_message(t, &f, 0);
	wait_event(t, &f);
	end(t, &f);
}

vt_test(a_cq_armed_for_solicited_events_ignores_other_messages)
{
	struct fixture f;

	begin(t, &f);
	assert_int_equal(ibv_req_notify_cq(f.cq, 1), 0);
	one_message(t, &f, 0);
	assert_int_equal(get_event(t, &f), -EAGAIN);
	one_message(t, &f, IBV_SEND_SOLICITED);
	wait_event(t, &f);
	end(t, &f);
}

vt_test(an_error_counts_as_solicited)
{
	struct fixture f;

	begin(t, &f);
	assert_int_equal(vt_recv(f.qb, 1, NULL, 0), 0);
	assert_int_equal(ibv_req_notify_cq(f.cq, 1), 0);
	assert_int_equal(vt_to(t, f.qb, IBV_QPS_ERR), 0);
	vt_expect(t, &t->b.recv, 1, IBV_WC_WR_FLUSH_ERR);
	wait_event(t, &f);
	end(t, &f);
}

vt_test(the_channel_is_readable_while_an_event_waits)
{
	struct pollfd pfd;
	struct fixture f;

	begin(t, &f);
	pfd = (struct pollfd){ .fd = f.ch->fd, .events = POLLIN };
	assert_int_equal(ibv_req_notify_cq(f.cq, 0), 0);
	one_message(t, &f, 0);
	assert_int_equal(poll(&pfd, 1, 5000), 1);
	wait_event(t, &f);
	end(t, &f);
}

vt_test(an_event_left_unread_does_not_outlive_its_queue)
{
	struct fixture f;

	begin(t, &f);
	assert_int_equal(ibv_req_notify_cq(f.cq, 0), 0);
	one_message(t, &f, 0);
	end(t, &f);
}

/*
 * The thread of end b arms the CQ, polls once more, and then sleeps until the
 * channel's descriptor is readable. Meanwhile the test's main thread makes the
 * turns of end a.
 */
struct sleeper {
	struct vt *t;
	struct fixture *f;
	unsigned messages;
	_Atomic unsigned seen;
	_Atomic int failed;
};

static bool drain(struct sleeper *s)
{
	struct ibv_wc wc;
	bool any = false;

	while (ibv_poll_cq(s->f->cq, 1, &wc) == 1) {
		if (wc.status != IBV_WC_SUCCESS ||
		    vt_recv(s->f->qb, 1, NULL, 0))
			atomic_store(&s->failed, 1);
		atomic_fetch_add(&s->seen, 1);
		any = true;
	}
	return any;
}

static void *sleep_and_drain(void *arg)
{
	struct sleeper *s = arg;
	struct pollfd pfd = { .fd = s->f->ch->fd, .events = POLLIN };

	while (atomic_load(&s->seen) < s->messages &&
	       !atomic_load(&s->failed)) {
		ibv_req_notify_cq(s->f->cq, 0);
		if (drain(s))
			continue;
		if (poll(&pfd, 1, 5000) <= 0)
			atomic_store(&s->failed, 2);
		while (!get_event(s->t, s->f))
			;
	}
	/* Make more turns, so that the last messages are acked. */
	for (int i = 0; i < 100; i++)
		drain(s);
	return NULL;
}

vt_test(a_sleeping_owner_misses_no_completion)
{
	enum {
		N = 500
	};
	struct sleeper s = { .t = t, .messages = N };
	struct fixture f;
	pthread_t thread;
	struct ibv_wc wc;
	unsigned sent = 0, done = 0;
	int64_t until = vt_ms() + 60000;

	/* This test has two threads, so it needs two contexts. */
	if (t->same || !t->has_threads)
		skip();
	begin(t, &f);
	s.f = &f;
	for (int i = 0; i < 32; i++)
		assert_int_equal(vt_recv(f.qb, 1, NULL, 0), 0);
	assert_int_equal(pthread_create(&thread, NULL, sleep_and_drain, &s), 0);
	while (done < N && !atomic_load(&s.failed) && vt_ms() < until) {
		if (sent < N && sent - done < 3 &&
		    !vt_send(f.qa, IBV_WR_SEND, 2, IBV_SEND_SIGNALED, NULL, 0))
			sent++;
		if (ibv_poll_cq(t->a.send.cq, 1, &wc) == 1)
			done++;
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(atomic_load(&s.failed), 0);
	assert_int_equal(atomic_load(&s.seen), N);
	assert_int_equal(done, N);
	end(t, &f);
}

vt_test(an_overrun_is_an_event_of_the_queue_and_of_the_qp)
{
	struct ibv_cq *small, *usual = t->a.send.cq;
	struct ibv_qp *qa, *qb;
	struct ibv_async_event ev;
	int64_t until = vt_ms() + 60000;
	unsigned posted = 0;
	int rc;

	assert_int_equal(t->v->create_cq(t->a.ctx, 4, NULL, NULL, &small), 0);
	t->a.send.cq = small;
	vt_pair(t, &vt_usual, &qa, &qb);
	t->a.send.cq = usual;
	while (posted < (unsigned)small->cqe + 2) {
		vt_nothing(qa, posted);
		posted++;
	}
	while ((rc = t->v->get_async_event(t->a.ctx, &ev)) == -EAGAIN) {
		vt_turn(t);
		assert_true(vt_ms() < until);
	}
	assert_int_equal(rc, 0);
	assert_int_equal(ev.event_type, IBV_EVENT_CQ_ERR);
	assert_ptr_equal(ev.element.cq, small);
	t->v->ack_async_event(&ev);
	if (!t->rxe) {
		assert_int_equal(vt_event(t, &t->a), IBV_EVENT_QP_FATAL);
		for (int i = 0; i < 10; i++)
			vt_turn(t);
		assert_int_equal(vt_state(t, qa), IBV_QPS_ERR);
	}
	vt_destroy(t, qa, qb);
	assert_int_equal(t->v->destroy_cq(small), 0);
	while (t->v->get_async_event(t->a.ctx, &ev) == 0)
		t->v->ack_async_event(&ev);
}

/* mlx5 removes the completions. rxe leaves them in the queue. */
vt_test(destroying_or_resetting_a_qp_removes_its_completions)
{
	struct ibv_qp *qa, *qb, *stays, *other;

	if (t->rxe)
		skip();
	vt_pair(t, &vt_usual, &stays, &other);
	for (int how = 0; how < 2; how++) {
		vt_pair(t, &vt_usual, &qa, &qb);
		for (uint64_t id = 2; id < 6; id++)
			assert_int_equal(vt_recv(qa, id, NULL, 0), 0);
		/* Flush the WRs, but do not poll their completions. */
		assert_int_equal(vt_to(t, qa, IBV_QPS_ERR), 0);
		if (how)
			vt_destroy(t, qa, NULL);
		else
			assert_int_equal(vt_to(t, qa, IBV_QPS_RESET), 0);
		assert_int_equal(vt_recv(other, 9, NULL, 0), 0);
		assert_int_equal(vt_send_imm(stays, 10, 0, NULL, 0), 0);
		vt_expect(t, &t->b.recv, 9, IBV_WC_SUCCESS);
		vt_expect(t, &t->a.send, 10, IBV_WC_SUCCESS);
		vt_quiet(t, &t->a.recv, 4);
		vt_destroy(t, how ? NULL : qa, qb);
	}
}
