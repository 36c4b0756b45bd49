/* SPDX-License-Identifier: Apache-2.0 */
/* Staging windows are released when no connection uses them. */
#include <errno.h>

#include "ipc/client.h"
#include "loop.h"
#include "test.h"

#define LATER 40000 /* ms; longer than the time between two sweeps */

static uint64_t now = 1000000;

static void sweep(uint64_t ms)
{
	now += ms;
	mpib_client_hold(c);
	mpib_windows_sweep(c, now);
	mpib_client_unlock(c);
}

static void move(size_t at)
{
	struct mpib_request *r = recv_at(0, 100000);
	struct mpib_request *s = send_at(at, 100000, 0);

	assert_int_equal(finish(r, s, NULL), 0);
	assert_int_equal(finish(s, NULL, NULL), 0);
	assert_memory_equal(to, from + at, 100000);
}

/* Wait until the proxy has received all messages: it answers the new request
 * last. */
static void until_heard(void)
{
	struct mpib_handle h = { .magic = MPIB_HANDLE_MAGIC };
	struct mpib_listener *l;

	assert_int_equal(mpib_listen(c, &h, &l), 0);
	mpib_close_listen(l);
}

#define CASE(name) TEST_OF(name, loop_start, loop_stop)

CASE(an_idle_window_is_released)
{
	sweep(LATER);
	move(1);
	assert_int_equal(asked(MPIB_CTL_POOL), 2);
	sweep(LATER); /* no effect: the window was used since the last sweep */
	sweep(1); /* no effect: it is too early for another sweep */
	until_heard();
	assert_int_equal(asked(MPIB_CTL_DEREG), 0);
	move(2);
	assert_int_equal(asked(MPIB_CTL_POOL), 2);
	sweep(LATER);
	sweep(LATER);
	until_heard();
	assert_int_equal(asked(MPIB_CTL_DEREG), 2);
	move(3);
	assert_int_equal(asked(MPIB_CTL_POOL), 4);
}

/* Until the connection is closed, the peer may still write into the window. */
CASE(the_window_of_a_failed_connection_is_kept)
{
	struct mpib_request *r = recv_at(0, 100000);

	fake_break(f, 1, -ETIMEDOUT);
	end_as(1, r, -ETIMEDOUT);
	assert_int_equal(finish(r, NULL, NULL), -ETIMEDOUT);
	sweep(LATER);
	sweep(LATER);
	send_at(3, 100000, 0);
	assert_ptr_not_equal(tx->window.base, rx->window.base);
}

CASE(windows_of_idle_connections_are_released)
{
	struct mpib_handle h = { .magic = MPIB_HANDLE_MAGIC };
	struct mpib_conn *conn[30];
	struct mpib_request *r;
	void *data = to;
	size_t size = 5000;

	for (unsigned i = 0; i < 30; i++) {
		assert_int_equal(mpib_connect(c, &h, -1, &conn[i]), 0);
		assert_int_equal(mpib_ready(conn[i]), 1);
		assert_int_equal(
			mpib_isend(conn[i], data, size, 0, to_region, &r), 0);
		mpib_completion_finish(&f->reply->completion[i + 2][0], 1,
				       (int32_t)size);
		assert_int_equal(mpib_test(r, &(int){ 0 }, NULL), 0);
	}
	assert_int_equal(asked(MPIB_CTL_POOL), 30);
	sweep(LATER);
	sweep(LATER);
	until_heard();
	assert_int_equal(asked(MPIB_CTL_DEREG), 30);
	for (unsigned i = 0; i < 30; i++)
		mpib_close(conn[i]);
}

static int try_send(struct mpib_request **s)
{
	int rc;

	do /* try again while the helper has the client's lock */
		rc = mpib_isend(tx, from + 3, 100000, 0, from_region, s);
	while (rc == 0 && !*s);
	return rc;
}

/* A connection without a window cannot wait until its window has room, so the
 * refusal is an error. */
CASE(a_refusal_of_the_first_window_is_an_error)
{
	struct mpib_region *region[2] = { to_region, to_region };
	void *data[2] = { to, to + 100000 };
	size_t size[2] = { 100000, 100000 };
	struct mpib_request *s = NULL;
	int rc;

	atomic_store(&f->refuse_pool, -EDQUOT);
	assert_int_equal(try_send(&s), -EDQUOT);
	assert_string_equal(mpib_strerror(), "others have it all");
	atomic_store(&f->refuse_pool, 0);
	move(1);
	atomic_store(&f->refuse_pool, -EDQUOT);
	do
		rc = mpib_irecv(rx, 2, data, size, NULL, region, &s);
	while (rc == 0 && !s);
	assert_int_equal(rc, -EDQUOT);
}
