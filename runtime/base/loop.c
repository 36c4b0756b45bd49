/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

int mpib_loop_init(struct mpib_loop *loop)
{
	memset(loop, 0, sizeof(*loop));
	loop->epfd = epoll_create1(EPOLL_CLOEXEC);
	return loop->epfd < 0 ? -errno : 0;
}

void mpib_loop_fini(struct mpib_loop *loop)
{
	close(loop->epfd);
}

int mpib_loop_add(struct mpib_loop *loop, struct mpib_io *watch, int fd,
		  uint32_t events, mpib_io_fn *fn, void *arg)
{
	struct epoll_event ev = { .events = events, .data.ptr = watch };

	assert(!watch->added);
	if (epoll_ctl(loop->epfd, EPOLL_CTL_ADD, fd, &ev) < 0)
		return -errno;
	*watch = (struct mpib_io){
		.fd = fd, .added = true, .fn = fn, .arg = arg
	};
	return 0;
}

/* Drop the watch's events that this turn has not handled yet, except the event
 * bits in `but`. */
static void forget_events(struct mpib_loop *loop, const struct mpib_io *watch,
			  uint32_t but)
{
	for (int i = loop->at; i < loop->taken; i++) {
		struct epoll_event *ev = &loop->batch[i];

		if (ev->data.ptr != watch)
			continue;
		ev->events &= but;
		if (!ev->events)
			ev->data.ptr = NULL;
	}
}

int mpib_loop_mod(struct mpib_loop *loop, struct mpib_io *watch,
		  uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = watch };

	assert(watch->added);
	if (epoll_ctl(loop->epfd, EPOLL_CTL_MOD, watch->fd, &ev) < 0)
		return -errno;
	forget_events(loop, watch, events | EPOLLERR | EPOLLHUP);
	return 0;
}

void mpib_loop_del(struct mpib_loop *loop, struct mpib_io *watch)
{
	if (!watch->added)
		return;
	epoll_ctl(loop->epfd, EPOLL_CTL_DEL, watch->fd, NULL);
	watch->added = false;
	forget_events(loop, watch, 0);
}

static bool loop_before(const struct mpib_timer *a, const struct mpib_timer *b)
{
	if (a->deadline != b->deadline)
		return a->deadline < b->deadline;
	return a->seq < b->seq;
}

/* Join two heaps. The `prev` of a timer is its left sibling, or its parent if
 * it is a first child. */
static struct mpib_timer *loop_meld(struct mpib_timer *a, struct mpib_timer *b)
{
	struct mpib_timer *swap;

	if (!a || !b)
		return a ? a : b;
	if (loop_before(b, a)) {
		swap = a;
		a = b;
		b = swap;
	}
	b->next = a->child;
	if (b->next)
		b->next->prev = b;
	b->prev = a;
	a->child = b;
	return a;
}

/* Make one heap of the children of a removed root, as in any pairing heap: meld
 * the children in pairs, then meld the pairs, from the last to the first. */
static struct mpib_timer *meld_siblings(struct mpib_timer *t)
{
	struct mpib_timer *pairs = NULL, *root = NULL;

	while (t) {
		struct mpib_timer *a = t, *b = t->next, *rest;

		rest = b ? b->next : NULL;
		a->next = a->prev = NULL;
		if (b)
			b->next = b->prev = NULL;
		a = loop_meld(a, b);
		a->next = pairs;
		pairs = a;
		t = rest;
	}
	while (pairs) {
		struct mpib_timer *rest = pairs->next;

		pairs->next = NULL;
		root = loop_meld(root, pairs);
		pairs = rest;
	}
	return root;
}

void mpib_timer_disarm(struct mpib_loop *loop, struct mpib_timer *timer)
{
	struct mpib_timer *below;

	if (!timer->armed)
		return;
	below = meld_siblings(timer->child);
	if (loop->timers == timer) {
		loop->timers = below;
	} else {
		if (timer->prev->child == timer)
			timer->prev->child = timer->next;
		else
			timer->prev->next = timer->next;
		if (timer->next)
			timer->next->prev = timer->prev;
		loop->timers = loop_meld(loop->timers, below);
	}
	timer->child = timer->next = timer->prev = NULL;
	timer->armed = false;
}

void mpib_timer_arm(struct mpib_loop *loop, struct mpib_timer *timer,
		    uint64_t ns, mpib_timer_fn *fn, void *arg)
{
	mpib_timer_disarm(loop, timer);
	timer->deadline = mpib_loop_now(loop) + ns;
	timer->seq = loop->seq++;
	timer->fn = fn;
	timer->arg = arg;
	timer->armed = true;
	loop->timers = loop_meld(loop->timers, timer);
}

uint64_t mpib_loop_now(struct mpib_loop *loop)
{
	if (!loop->manual)
		loop->clock = mpib_now_ns();
	return loop->clock;
}

void mpib_loop_advance(struct mpib_loop *loop, uint64_t ns)
{
	mpib_loop_now(loop);
	loop->manual = true;
	loop->clock += ns;
}

/* Return the time to sleep in milliseconds, rounded up so that a timer is due
 * when epoll_wait() returns. */
static int wait_ms(struct mpib_loop *loop, int64_t ns)
{
	uint64_t now = mpib_loop_now(loop), ms;

	if (loop->timers && loop->timers->deadline <= now)
		ns = 0;
	else if (loop->timers && !loop->manual &&
		 (ns < 0 || loop->timers->deadline - now < (uint64_t)ns))
		ns = (int64_t)(loop->timers->deadline - now);
	if (ns < 0)
		return -1;
	ms = ((uint64_t)ns + MPIB_MSEC - 1) / MPIB_MSEC;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

static int loop_run_timers(struct mpib_loop *loop)
{
	uint64_t now = mpib_loop_now(loop), first_new = loop->seq;
	struct mpib_timer *t;
	int ran = 0;

	while ((t = loop->timers) && t->deadline <= now && t->seq < first_new) {
		mpib_timer_disarm(loop, t);
		t->fn(t->arg);
		ran++;
	}
	return ran;
}

int mpib_loop_turn(struct mpib_loop *loop, int64_t ns)
{
	int ran = 0, n;

	n = epoll_wait(loop->epfd, loop->batch, MPIB_LOOP_BATCH,
		       wait_ms(loop, ns));
	if (n < 0 && errno != EINTR)
		return -errno;

	loop->taken = n < 0 ? 0 : n;
	for (loop->at = 0; loop->at < loop->taken;) {
		struct epoll_event *ev = &loop->batch[loop->at++];
		struct mpib_io *watch = ev->data.ptr;

		if (!watch)
			continue;
		watch->fn(watch->arg, ev->events);
		ran++;
	}
	loop->at = loop->taken = 0;
	return ran + loop_run_timers(loop);
}

int mpib_loop_run(struct mpib_loop *loop)
{
	int rc = 0;

	while (!loop->stop && rc >= 0)
		rc = mpib_loop_turn(loop, MPIB_FOREVER);
	loop->stop = false;
	return rc < 0 ? rc : 0;
}
