/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/loop.h: descriptors are told, removed watches are not, timers run in
 * order of deadline under any sequence of arming and disarming, nothing starves
 * the descriptors, and stop wakes a sleeping loop.
 */
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/loop.h"
#include "test.h"

struct fixture {
	struct mpib_loop loop;
	int fd[2];
	struct mpib_io watch[2];
	int ran[2];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_int_equal(mpib_loop_init(&f->loop), 0);
	for (int i = 0; i < 2; i++)
		f->fd[i] = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
	mpib_loop_advance(&f->loop, 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 2; i++)
		close(f->fd[i]);
	mpib_loop_fini(&f->loop);
	free(f);
	return 0;
}

static void count(void *arg, uint32_t events)
{
	assert_int_equal(events, EPOLLIN);
	++*(int *)arg;
}

static void count_timer(void *arg)
{
	++*(int *)arg;
}

static void tells_a_readable_descriptor_each_turn(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(mpib_loop_turn(&f->loop, 0), 0);
	assert_int_equal(mpib_loop_add(&f->loop, &f->watch[0], f->fd[0],
				       EPOLLIN, count, &f->ran[0]),
			 0);
	assert_int_equal(mpib_loop_turn(&f->loop, 0), 1);
	assert_int_equal(mpib_loop_turn(&f->loop, 0), 1);
	assert_int_equal(mpib_loop_mod(&f->loop, &f->watch[0], 0), 0);
	assert_int_equal(mpib_loop_turn(&f->loop, 0), 0);
	assert_int_equal(f->ran[0], 2);
	mpib_loop_del(&f->loop, &f->watch[0]);
	mpib_loop_del(&f->loop, &f->watch[0]);
}

static void remove_both(void *arg, uint32_t events)
{
	struct fixture *f = arg;

	(void)events;
	for (int i = 0; i < 2; i++)
		mpib_loop_del(&f->loop, &f->watch[i]);
	memset(f->watch, 0xff, sizeof(f->watch));
	f->ran[0]++;
}

static void forgets_a_removed_watch_within_the_turn(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 2; i++)
		mpib_loop_add(&f->loop, &f->watch[i], f->fd[i], EPOLLIN,
			      remove_both, f);
	assert_int_equal(mpib_loop_turn(&f->loop, 0), 1);
	assert_int_equal(mpib_loop_turn(&f->loop, 0), 0);
	assert_int_equal(f->ran[0], 1);
}

static void pause_both(void *arg, uint32_t events)
{
	struct fixture *f = arg;

	(void)events;
	for (int i = 0; i < 2; i++)
		assert_int_equal(mpib_loop_mod(&f->loop, &f->watch[i], 0), 0);
	f->ran[0]++;
}

static void forgets_what_is_not_watched_any_more_within_the_turn(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 2; i++)
		mpib_loop_add(&f->loop, &f->watch[i], f->fd[i], EPOLLIN,
			      pause_both, f);
	assert_int_equal(mpib_loop_turn(&f->loop, 0), 1);
	assert_int_equal(f->ran[0], 1);
	for (int i = 0; i < 2; i++)
		assert_int_equal(mpib_loop_mod(&f->loop, &f->watch[i], EPOLLIN),
				 0);
	assert_int_equal(mpib_loop_turn(&f->loop, 0), 1);
	assert_int_equal(f->ran[0], 2);
	for (int i = 0; i < 2; i++)
		mpib_loop_del(&f->loop, &f->watch[i]);
}

struct probe {
	struct mpib_timer timer;
	uint64_t due;
	bool armed;
	uint64_t *last;
	struct mpib_loop *loop;
};

static void check_order(void *arg)
{
	struct probe *p = arg;

	assert_true(p->armed);
	assert_true(p->due >= *p->last);
	assert_true(p->due <= mpib_loop_now(p->loop));
	*p->last = p->due;
	p->armed = false;
}

/* A model of 50 timers under random arming, moving, disarming and time. */
static void runs_timers_in_order_of_their_deadlines(void **state)
{
	struct fixture *f = *state;
	struct probe p[50] = { 0 };
	unsigned seed = 7;
	uint64_t last = 0;

	for (int i = 0; i < 50; i++) {
		p[i].last = &last;
		p[i].loop = &f->loop;
	}
	for (int step = 0; step < 20000; step++) {
		struct probe *q = &p[(unsigned)rand_r(&seed) % 50];
		unsigned what = (unsigned)rand_r(&seed) % 8;
		uint64_t ns = (unsigned)rand_r(&seed) % 100;

		if (what < 5) {
			mpib_timer_arm(&f->loop, &q->timer, ns, check_order, q);
			q->due = mpib_loop_now(&f->loop) + ns;
			q->armed = true;
		} else if (what < 6) {
			mpib_timer_disarm(&f->loop, &q->timer);
			q->armed = false;
		} else {
			mpib_loop_advance(&f->loop, ns / 4);
			mpib_loop_turn(&f->loop, 0);
			for (int i = 0; i < 50; i++)
				assert_true(!p[i].armed ||
					    p[i].due > mpib_loop_now(&f->loop));
			last = 0;
		}
	}
}

struct repeat {
	struct mpib_loop *loop;
	struct mpib_timer timer;
	int ran;
};

static void again(void *arg)
{
	struct repeat *r = arg;

	r->ran++;
	mpib_timer_arm(r->loop, &r->timer, 0, again, r);
}

static void runs_a_timer_that_arms_itself_once_a_turn(void **state)
{
	struct fixture *f = *state;
	struct repeat r = { .loop = &f->loop };

	mpib_timer_arm(&f->loop, &r.timer, 0, again, &r);
	assert_int_equal(mpib_loop_turn(&f->loop, MPIB_FOREVER), 1);
	assert_int_equal(mpib_loop_turn(&f->loop, MPIB_FOREVER), 1);
	assert_int_equal(r.ran, 2);
	mpib_timer_disarm(&f->loop, &r.timer);
	assert_int_equal(mpib_loop_turn(&f->loop, 0), 0);
}

static void keeps_a_timer_until_its_time(void **state)
{
	struct fixture *f = *state;
	struct mpib_timer timer = { 0 };
	int ran = 0;

	mpib_timer_arm(&f->loop, &timer, 10, count_timer, &ran);
	mpib_loop_advance(&f->loop, 9);
	mpib_loop_turn(&f->loop, 0);
	assert_int_equal(ran, 0);
	mpib_loop_advance(&f->loop, 1);
	mpib_loop_turn(&f->loop, 0);
	assert_int_equal(ran, 1);
	assert_false(timer.armed);
}

static void *run(void *arg)
{
	return (void *)(intptr_t)mpib_loop_run(arg);
}

static void stops_from_another_thread(void **state)
{
	struct fixture *f = *state;
	pthread_t thread;
	void *rc;

	assert_int_equal(pthread_create(&thread, NULL, run, &f->loop), 0);
	mpib_loop_stop(&f->loop);
	pthread_join(thread, &rc);
	assert_null(rc);
}

static void waits_for_a_timer_in_real_time(void **state)
{
	struct mpib_loop loop;
	struct mpib_timer timer = { 0 };
	int ran = 0;

	assert_int_equal(mpib_loop_init(&loop), 0);
	mpib_timer_arm(&loop, &timer, MPIB_MSEC, count_timer, &ran);
	while (!ran)
		assert_true(mpib_loop_turn(&loop, MPIB_FOREVER) >= 0);
	assert_true(mpib_loop_now(&loop) >= timer.deadline);
	mpib_loop_fini(&loop);
}

const struct CMUnitTest test_list[] = {
	fixture_test(tells_a_readable_descriptor_each_turn),
	fixture_test(forgets_a_removed_watch_within_the_turn),
	fixture_test(forgets_what_is_not_watched_any_more_within_the_turn),
	fixture_test(runs_timers_in_order_of_their_deadlines),
	fixture_test(runs_a_timer_that_arms_itself_once_a_turn),
	fixture_test(keeps_a_timer_until_its_time),
	fixture_test(stops_from_another_thread),
	cmocka_unit_test(waits_for_a_timer_in_real_time),
	{ 0 },
};
