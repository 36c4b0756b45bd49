/* SPDX-License-Identifier: Apache-2.0 */
/* Events in threaded mode: how threads wait for events, and how a wait ends. */
#include "vt.h"

#include "verbs/soft/soft.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

/* Stop a thread between two steps: after it has read from the descriptor `fd`
 * that there is an event, and before it fetches the event. */
static struct {
	_Atomic int fd;
	_Atomic bool stopped, go_on;
} halt = { .fd = -1 };

WRAPS(ssize_t, read, int fd, void *buf, size_t n)
{
	ssize_t rc = __real_read(fd, buf, n);

	if (rc > 0 && atomic_compare_exchange_strong(&halt.fd, &fd, -1)) {
		atomic_store(&halt.stopped, true);
		while (!atomic_load(&halt.go_on))
			sched_yield();
	}
	return rc;
}

static void halt_at(int fd)
{
	atomic_store(&halt.stopped, false);
	atomic_store(&halt.go_on, false);
	atomic_store(&halt.fd, fd);
}

static void await_halt(void)
{
	while (!atomic_load(&halt.stopped))
		sched_yield();
}

struct waiter {
	struct vt *t;
	/* channel to wait for; NULL: wait for an asynchronous event */
	struct ibv_comp_channel *ch;
	struct ibv_cq *which;
	struct ibv_async_event event;
	pthread_t thread;
	int rc;
	_Atomic bool over;
};

static void *wait_for_event(void *arg)
{
	struct waiter *w = arg;
	void *ctx;

	if (w->ch)
		w->rc = w->t->v->get_cq_event(w->ch, &w->which, &ctx);
	else
		w->rc = w->t->v->get_async_event(w->t->b.ctx, &w->event);
	atomic_store(&w->over, true);
	return NULL;
}

static _Atomic int alarms;

static void on_alarm(int sig)
{
	atomic_fetch_add(&alarms, 1);
}

static void start_waiting(struct waiter *w, struct vt *t,
			  struct ibv_comp_channel *ch)
{
	*w = (struct waiter){ .t = t, .ch = ch };
	assert_int_equal(pthread_create(&w->thread, NULL, wait_for_event, w),
			 0);
}

/* Return the result of the wait. Fail the test if the wait does not end. */
static int result(struct waiter *w)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 10;
	assert_int_equal(pthread_timedjoin_np(w->thread, NULL, &until), 0);
	return w->rc;
}

/* Send signals to the waiter until its wait ends, but at most `most`
 * signals. */
static void disturb(struct waiter *w, int flags, int most)
{
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = flags };

	assert_int_equal(sigaction(SIGUSR1, &sa, NULL), 0);
	for (int i = 0; i < most && !atomic_load(&w->over); i++) {
		pthread_kill(w->thread, SIGUSR1);
		usleep(2000);
	}
}

/* libibverbs waits with read(), which behaves in the same way. */
vt_threaded_test(a_signal_ends_a_wait_only_without_sa_restart)
{
	struct ibv_comp_channel *ch;
	struct waiter w;
	struct ibv_cq *plain, *cq;
	struct ibv_qp *qb;

	assert_int_equal(t->v->create_comp_channel(t->b.ctx, &ch), 0);
	assert_int_equal(t->v->create_cq(t->b.ctx, 16, NULL, ch, &cq), 0);
	start_waiting(&w, t, ch);
	disturb(&w, 0, 5000);
	pthread_join(w.thread, NULL);
	assert_int_equal(w.rc, -EINTR);
	start_waiting(&w, t, ch);
	disturb(&w, SA_RESTART, 50);
	assert_false(atomic_load(&w.over));
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	plain = t->b.recv.cq;
	t->b.recv.cq = cq;
	qb = vt_qp(t, &t->b, &vt_usual);
	assert_int_equal(vt_to_init(t, qb, VT_ALL), 0);
	assert_int_equal(vt_recv(qb, 1, NULL, 0), 0);
	assert_int_equal(vt_to(t, qb, IBV_QPS_ERR), 0);
	pthread_join(w.thread, NULL);
	assert_int_equal(w.rc, 0);
	assert_ptr_equal(w.which, cq);
	t->v->ack_cq_events(cq, 1);
	vt_destroy(t, qb, NULL);
	t->b.recv.cq = plain;
	assert_int_equal(t->v->destroy_cq(cq), 0);
	assert_int_equal(t->v->destroy_comp_channel(ch), 0);
}

/* With a real device, the kernel does the same. */
vt_threaded_test(waits_for_events_end_when_the_device_is_gone)
{
	const struct mpib_soft_fault gone = { .gone = 1 };
	struct ibv_comp_channel *ch;
	struct ibv_async_event ev;
	struct waiter w[2];

	assert_int_equal(t->v->create_comp_channel(t->b.ctx, &ch), 0);
	for (unsigned i = 0; i < 2; i++)
		start_waiting(&w[i], t, ch);
	usleep(20000);
	assert_int_equal(mpib_soft_set_fault(t->b.ctx, &gone), 0);
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(w[i].thread, NULL);
		assert_int_equal(w[i].rc, -EIO);
	}
	assert_int_equal(t->v->get_async_event(t->b.ctx, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_DEVICE_FATAL);
	t->v->ack_async_event(&ev);
	assert_int_equal(t->v->get_async_event(t->b.ctx, &ev), -EIO);
	assert_int_equal(t->v->destroy_comp_channel(ch), 0);
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* If several threads wait for the same event, one thread gets it, and the
 * others must not block. */
vt_threaded_test(one_waiter_gets_the_event_and_the_others_get_eio)
{
	const struct mpib_soft_fault gone = { .gone = 1 };
	struct waiter w[3];
	int events = 0;

	for (unsigned i = 0; i < 3; i++)
		start_waiting(&w[i], t, NULL);
	usleep(20000);
	assert_int_equal(mpib_soft_set_fault(t->b.ctx, &gone), 0);
	for (unsigned i = 0; i < 3; i++) {
		if (result(&w[i]) == -EIO)
			continue;
		assert_int_equal(w[i].rc, 0);
		assert_int_equal(w[i].event.event_type, IBV_EVENT_DEVICE_FATAL);
		t->v->ack_async_event(&w[i].event);
		events++;
	}
	assert_int_equal(events, 1);
	/* The descriptor must not stay readable. */
	assert_false(readable(t->b.ctx->async_fd));
}

/* Return a QP with a receive, or with an SRQ. When the QP moves to ERR, the
 * receive is flushed to `cq`. */
static struct ibv_qp *with_receive(struct vt *t, struct ibv_cq *cq,
				   const struct vt_opt *o)
{
	struct ibv_cq *plain = t->b.recv.cq;
	struct ibv_qp *qp;

	t->b.recv.cq = cq;
	qp = vt_qp(t, &t->b, o);
	t->b.recv.cq = plain;
	assert_int_equal(vt_to_init(t, qp, VT_ALL), 0);
	if (!o->srq)
		assert_int_equal(vt_recv(qp, 1, NULL, 0), 0);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	return qp;
}

/* When an event is dropped, its count in the descriptor must be dropped,
 * too. */
vt_threaded_test(an_event_of_a_destroyed_qp_is_dropped)
{
	struct vt_opt o = vt_usual;
	struct ibv_qp *gone, *qp;
	struct waiter w;

	o.srq = vt_srq(t, &t->b, 4);
	gone = with_receive(t, t->b.recv.cq, &o);
	qp = with_receive(t, t->b.recv.cq, &o);
	halt_at(t->b.ctx->async_fd);
	start_waiting(&w, t, NULL);
	assert_int_equal(vt_to(t, gone, IBV_QPS_ERR), 0);
	await_halt();
	vt_destroy(t, gone, NULL);
	assert_int_equal(vt_to(t, qp, IBV_QPS_ERR), 0);
	atomic_store(&halt.go_on, true);
	assert_int_equal(result(&w), 0);
	t->v->ack_async_event(&w.event);
	assert_ptr_equal(w.event.element.qp, qp);
	assert_false(readable(t->b.ctx->async_fd));
}

vt_threaded_test(an_event_of_a_destroyed_cq_is_dropped)
{
	struct ibv_comp_channel *ch;
	struct ibv_cq *gone, *cq;
	struct ibv_qp *first, *second;
	struct waiter w;

	assert_int_equal(t->v->create_comp_channel(t->b.ctx, &ch), 0);
	assert_int_equal(t->v->create_cq(t->b.ctx, 16, NULL, ch, &gone), 0);
	assert_int_equal(t->v->create_cq(t->b.ctx, 16, NULL, ch, &cq), 0);
	first = with_receive(t, gone, &vt_usual);
	second = with_receive(t, cq, &vt_usual);
	halt_at(ch->fd);
	start_waiting(&w, t, ch);
	assert_int_equal(vt_to(t, first, IBV_QPS_ERR), 0);
	await_halt();
	vt_destroy(t, first, NULL);
	assert_int_equal(t->v->destroy_cq(gone), 0);
	assert_int_equal(vt_to(t, second, IBV_QPS_ERR), 0);
	atomic_store(&halt.go_on, true);
	assert_int_equal(result(&w), 0);
	t->v->ack_cq_events(w.which, 1);
	assert_ptr_equal(w.which, cq);
	assert_false(readable(ch->fd));
	vt_destroy(t, second, NULL);
	assert_int_equal(t->v->destroy_cq(cq), 0);
	assert_int_equal(t->v->destroy_comp_channel(ch), 0);
}

/* A thread that polls the descriptor must not find it readable because of a
 * dropped event. */
vt_threaded_test(no_thread_waits_for_events_of_a_destroyed_object)
{
	struct ibv_comp_channel *ch;
	struct ibv_cq *plain, *cq;
	struct vt_opt o = vt_usual;
	struct ibv_qp *qb;

	assert_int_equal(t->v->create_comp_channel(t->b.ctx, &ch), 0);
	assert_int_equal(t->v->create_cq(t->b.ctx, 16, NULL, ch, &cq), 0);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	plain = t->b.send.cq;
	t->b.send.cq = cq;
	o.srq = vt_srq(t, &t->b, 4);
	qb = vt_qp(t, &t->b, &o);
	assert_int_equal(vt_to_init(t, qb, VT_ALL), 0);
	assert_int_equal(vt_to(t, qb, IBV_QPS_ERR), 0);
	assert_int_equal(
		vt_send(qb, IBV_WR_SEND, 1, IBV_SEND_SIGNALED, NULL, 0), 0);
	while (!readable(ch->fd))
		sched_yield();
	/* A QP with an SRQ that moves to ERR causes the event
	 * IBV_EVENT_QP_LAST_WQE_REACHED. */
	assert_true(readable(t->b.ctx->async_fd));
	vt_destroy(t, qb, NULL);
	assert_false(readable(t->b.ctx->async_fd));
	t->b.send.cq = plain;
	assert_int_equal(t->v->destroy_cq(cq), 0);
	assert_false(readable(ch->fd));
	assert_int_equal(t->v->destroy_comp_channel(ch), 0);
}
