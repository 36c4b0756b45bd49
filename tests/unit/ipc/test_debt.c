/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A proxy answers late, or its answer cannot be received. The client must wait
 * for the proxy only once, and must release the objects that the proxy created
 * for late answers. Instead of waiting for a stopped proxy, these tests only
 * add up the times for which the client would wait.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "attached.h"

#define ANSWER_MS 60000

static unsigned waited; /* ms that the client would have waited */

WRAPS(int, poll, struct pollfd *p, nfds_t n, int timeout)
{
	int rc;

	if (timeout <= 0 || !f || (!atomic_load(&f->hold) && !f->slow))
		return __real_poll(p, n, timeout);
	rc = __real_poll(p, n, f->slow ? 100 : 0);
	if (rc == 0)
		waited += (unsigned)timeout;
	return rc;
}

WRAPS(int, clock_gettime, clockid_t id, struct timespec *ts)
{
	int rc = __real_clock_gettime(id, ts);

	ts->tv_sec += waited / 1000;
	ts->tv_nsec += waited % 1000 * 1000000L;
	ts->tv_sec += ts->tv_nsec / 1000000000;
	ts->tv_nsec %= 1000000000;
	return rc;
}

static int begin(void **state)
{
	waited = 0;
	if (start(state) < 0)
		return -1;
	f->welcome.answer_ms = ANSWER_MS;
	attach();
	return 0;
}

static unsigned asked(enum mpib_control_type type)
{
	return atomic_load(&f->asked[type]);
}

/* Wait until the proxy has received `n` requests of this type. Fail after a
 * minute. */
static void until_asked(enum mpib_control_type type, unsigned n)
{
	time_t end = time(NULL) + 60;

	while (asked(type) < n) {
		if (time(NULL) > end)
			fail_msg("%u of %u requests of type %u", asked(type), n,
				 type);
		assert_int_equal(mpib_alive(c), 0);
		sched_yield();
	}
	assert_int_equal(asked(type), n);
}

#define CASE(name) TEST_OF(name, begin, stop)

CASE(the_client_waits_for_a_stopped_proxy_only_once)
{
	struct mpib_conn *conn[8];
	struct mpib_listener *l;
	struct mpib_region *r;
	struct mpib_handle h;

	for (unsigned i = 0; i < 8; i++)
		conn[i] = connected();
	assert_int_equal(mpib_listen(c, &h, &l), 0);
	assert_int_equal(mpib_reg_fd(c, &h, 4096, 0, 0, MPIB_REG_MEMFD, &r), 0);
	atomic_store(&f->hold, true);
	assert_null(mpib_mem_alloc(c, 4096));
	assert_int_equal(errno, ETIMEDOUT);
	assert_non_null(strstr(mpib_strerror(), "did not answer within 60 s"));
	for (unsigned i = 0; i < 8; i++)
		mpib_close(conn[i]);
	mpib_close_listen(l);
	/* mpib_dereg() must not succeed, because the proxy did not stop
	 * accessing the memory. */
	assert_int_equal(mpib_dereg(r), -ETIMEDOUT);
	assert_int_equal(mpib_listen(c, &h, &l), -ETIMEDOUT);
	assert_in_range(waited, 1, ANSWER_MS);
	/* When the proxy continues, it receives all requests. */
	atomic_store(&f->hold, false);
	until_asked(MPIB_CTL_CLOSE, 8);
	until_asked(MPIB_CTL_CLOSE_LISTEN, 1);
	/* one for the region, one for the late pool */
	until_asked(MPIB_CTL_DEREG, 2);
	assert_int_equal(asked(MPIB_CTL_LISTEN), 1);
	assert_int_equal(mpib_listen(c, &h, &l), 0);
}

static int make(enum mpib_control_type type, struct mpib_listener *l)
{
	struct mpib_handle h = { .magic = MPIB_HANDLE_MAGIC };
	struct mpib_listener *another;
	struct mpib_region *r;
	struct mpib_conn *conn;

	switch (type) {
	case MPIB_CTL_POOL:
		return mpib_mem_alloc(c, 4096) ? 0 : -errno;
	case MPIB_CTL_REG_FD:
		return mpib_reg_fd(c, &h, 4096, 0, 0, MPIB_REG_MEMFD, &r);
	case MPIB_CTL_LISTEN:
		return mpib_listen(c, &h, &another);
	case MPIB_CTL_CONNECT:
		return mpib_connect(c, &h, -1, &conn);
	default:
		return mpib_accept(l, &conn);
	}
}

static const struct {
	enum mpib_control_type make, undo;
} kinds[] = {
	{ MPIB_CTL_POOL, MPIB_CTL_DEREG },
	{ MPIB_CTL_REG_FD, MPIB_CTL_DEREG },
	{ MPIB_CTL_LISTEN, MPIB_CTL_CLOSE_LISTEN },
	{ MPIB_CTL_CONNECT, MPIB_CTL_CLOSE },
	{ MPIB_CTL_ACCEPT, MPIB_CTL_CLOSE },
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

CASE(objects_of_answers_that_come_too_late_are_released)
{
	struct mpib_listener *l;
	struct mpib_handle h;

	assert_int_equal(mpib_listen(c, &h, &l), 0);
	for (unsigned i = 0; i < KINDS; i++) {
		unsigned made = asked(kinds[i].make);
		unsigned undone = asked(kinds[i].undo);

		atomic_store(&f->hold, true);
		assert_int_equal(make(kinds[i].make, l), -ETIMEDOUT);
		atomic_store(&f->hold, false);
		until_asked(kinds[i].undo, undone + 1);
		assert_int_equal(asked(kinds[i].make), made + 1);
		assert_int_equal(make(kinds[i].make, l), 0);
	}
	/* The indices of the late connect and the late accept are free
	 * again. */
	mpib_close(connected());
	assert_int_equal(atomic_load(&f->reply->conn[3].state), MPIB_CONN_FREE);
}

CASE(an_answer_whose_descriptor_is_lost_fails_only_that_call)
{
	struct mpib_conn *conn = connected();
	struct rlimit was, now;
	struct mpib_request *r;
	int next = dup(0);

	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	now = was;
	/* Leave one free descriptor. The fake proxy, which runs in this
	 * process, uses this descriptor for the memory, so none is left for the
	 * client. */
	now.rlim_cur = (rlim_t)next + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
	assert_int_equal(make(MPIB_CTL_POOL, NULL), -EMFILE);
	assert_non_null(strstr(mpib_strerror(), "ulimit -n"));
	until_asked(MPIB_CTL_DEREG, 1);
	assert_int_equal(mpib_isend(conn, NULL, 0, 0, NULL, &r), 0);
	assert_non_null(r);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(make(MPIB_CTL_POOL, NULL), 0);
}
