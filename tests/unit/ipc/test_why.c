/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection fails and the proxy is slow, or silent, about the reason: post,
 * test and ready never wait for it. Time passes only where a test lets it.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <string.h>
#include <time.h>

#include "attached.h"

#define ANSWER_MS 60000
#define TELLS "the peer has no such listener" /* fake_proxy.c */

static unsigned passed; /* ms */
static unsigned waits; /* of the thread of the test, for the proxy */
static pthread_t tester;

int __wrap_poll(struct pollfd *p, nfds_t n, int timeout);
int __real_poll(struct pollfd *p, nfds_t n, int timeout);

int __wrap_poll(struct pollfd *p, nfds_t n, int timeout)
{
	int rc;

	if (timeout <= 0 || !pthread_equal(pthread_self(), tester))
		return __real_poll(p, n, timeout);
	waits++;
	rc = __real_poll(p, n, atomic_load(&f->hold) ? 0 : 10000);
	if (rc == 0)
		passed += (unsigned)timeout;
	return rc;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *ts);
int __real_clock_gettime(clockid_t id, struct timespec *ts);

int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	int rc = __real_clock_gettime(id, ts);

	ts->tv_sec += passed / 1000;
	return rc;
}

static int begin(void **state)
{
	passed = 0;
	tester = pthread_self();
	if (start(state) < 0)
		return -1;
	f->welcome.answer_ms = ANSWER_MS;
	attach();
	return 0;
}

/* A connection with a send outstanding, and then broken. */
static struct mpib_conn *broken(unsigned index, struct mpib_request **r)
{
	struct mpib_conn *conn = connected();

	assert_int_equal(mpib_isend(conn, NULL, 0, 0, NULL, r), 0);
	assert_non_null(*r);
	atomic_store(&f->reply->conn[index].broken, -ECONNRESET);
	waits = 0;
	return conn;
}

static int test_once(struct mpib_request *r)
{
	int done, rc = mpib_test(r, &done, NULL);

	assert_int_equal(done, rc < 0);
	return rc;
}

/* Test until it fails, a minute at the most. */
static int test_out(struct mpib_request *r)
{
	time_t end = time(NULL) + 60;
	int rc;

	while ((rc = test_once(r)) == 0) {
		assert_true(time(NULL) < end);
		sched_yield();
	}
	return rc;
}

static void expect_unknown(struct mpib_conn *conn, struct mpib_request *r)
{
	struct mpib_request *next = r;

	for (unsigned i = 0; i < 200; i++) {
		assert_int_equal(test_once(r), 0);
		assert_int_equal(mpib_isend(conn, NULL, 0, 0, NULL, &next), 0);
		assert_null(next);
	}
	assert_int_equal(waits, 0);
}

#define CASE(name) TEST_OF(name, begin, stop)

CASE(nobody_waits_for_the_reason)
{
	struct mpib_request *r;
	struct mpib_conn *conn;

	atomic_store(&f->slow, MPIB_CTL_WHY);
	conn = broken(0, &r);
	expect_unknown(conn, r);
	while (atomic_load(&f->asked[MPIB_CTL_WHY]) == 0)
		sched_yield();
	fake_end_slow(f);
	assert_int_equal(test_out(r), -ECONNRESET);
	assert_string_equal(mpib_strerror(), TELLS);
	assert_int_equal(waits, 0);
	/* It was asked once, and is known from now on. */
	assert_int_equal(atomic_load(&f->asked[MPIB_CTL_WHY]), 1 + 1);
	assert_int_equal(mpib_isend(conn, NULL, 0, 0, NULL, &r), -ECONNRESET);
	assert_string_equal(mpib_strerror(), TELLS);
	mpib_close(conn);
}

static unsigned overs;

static void on_watch(void *user, struct mpib_request *req, enum mpib_watch what)
{
	overs += what == MPIB_WATCH_OVER;
}

/* Two connections with a watched send each. */
static void watched(struct mpib_request **r)
{
	overs = 0;
	for (unsigned i = 0; i < 2; i++) {
		struct mpib_conn *conn = connected();

		assert_int_equal(
			mpib_report(conn, MPIB_REPORT_ALL, on_watch, NULL), 0);
		assert_int_equal(mpib_isend(conn, NULL, 0, 0, NULL, &r[i]), 0);
		assert_int_equal(test_once(r[i]), 0);
	}
	assert_int_equal(overs, 0);
}

CASE(who_watches_is_told_that_it_ended_with_its_connection)
{
	struct mpib_request *r[2];

	watched(r);
	for (unsigned i = 0; i < 2; i++)
		atomic_store(&f->reply->conn[i].broken, -ECONNRESET);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(test_out(r[i]), -ECONNRESET);
		assert_string_equal(mpib_strerror(), TELLS);
		assert_int_equal(overs, i + 1);
	}
}

CASE(who_watches_is_told_that_it_ended_with_the_proxy)
{
	struct mpib_request *r[2];
	int done;

	watched(r);
	fake_proxy_die(f);
	/* The first finds that it is gone, the second knows. */
	for (unsigned i = 0; i < 2; i++) {
		int rc;

		do {
			passed += 1000;
			rc = mpib_test(r[i], &done, NULL);
		} while (rc == 0);
		assert_int_equal(rc, -EPIPE);
		assert_int_equal(overs, i + 1);
		assert_int_equal(mpib_test(r[i], &done, NULL), -EPIPE);
		assert_int_equal(overs, i + 1);
	}
}
