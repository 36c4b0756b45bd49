/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The next proxy answers the helper's requests late, or refuses a request. All
 * other connections must continue at the next proxy.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "ipc/client.h"

/* ipc/client.h comes first, because its parameters named `c` would shadow the
 * global `c` of loop.h. */
#include "loop.h"
#include "test.h"

static int start(void **state)
{
	/* One second is enough for a proxy that the test does not slow down. */
	return loop_start_with(state, 600000, 1000);
}

/* Wait until the helper has given up waiting for the connection's answer. */
static void until_late(struct mpib_conn *conn)
{
	bool late = false;

	while (!late) {
		mpib_client_hold(c);
		late = atomic_load(&conn->next_state) != MPIB_NEXT_NONE &&
		       c->at->index[conn->next.index].debt.asked;
		mpib_client_unlock(c);
		sched_yield();
	}
}

static void until_listen_is_late(struct mpib_listener *listener)
{
	bool late = false;

	while (!late) {
		mpib_client_hold(c);
		late = listener->debt.asked != 0;
		mpib_client_unlock(c);
		sched_yield();
	}
}

#define CASE(name) TEST_OF(name, start, loop_stop)

/* If the helper attached again, the proxy would close the connection. */
CASE(a_proxy_that_answers_late_gets_each_request_once)
{
	unsigned hellos = asked(MPIB_CTL_HELLO),
		 connects = asked(MPIB_CTL_CONNECT),
		 closes = asked(MPIB_CTL_CLOSE);
	struct mpib_handle handle;
	struct mpib_listener *listener;
	struct mpib_conn *waits;

	assert_int_equal(mpib_listen(c, &handle, &listener), 0);
	atomic_store(&f->accept_key, 0);
	assert_int_equal(mpib_accept(listener, &waits), 0);
	dies();
	atomic_store(&f->slow, MPIB_CTL_RESUME);
	fake_proxy_return(f);
	until_late(rx);
	fake_end_slow(f);
	atomic_store(&f->slow, MPIB_CTL_LISTEN);
	goes_on(rx);
	goes_on(tx);
	while (asked(MPIB_CTL_LISTEN) < 3)
		sched_yield();
	fake_end_slow(f);
	while (mpib_conn_goes_on(waits) != 1)
		sched_yield();
	assert_int_equal(asked(MPIB_CTL_HELLO), hellos + 1);
	assert_int_equal(asked(MPIB_CTL_CLOSE), closes);
	assert_int_equal(asked(MPIB_CTL_CONNECT), connects + 1);
	assert_int_equal(f->resume.number, 2);
}

CASE(a_listener_closed_before_its_answer_is_closed_at_the_proxy)
{
	unsigned closes = asked(MPIB_CTL_CLOSE_LISTEN);
	struct mpib_listener *listener;
	struct mpib_handle handle;

	assert_int_equal(mpib_listen(c, &handle, &listener), 0);
	dies();
	atomic_store(&f->slow, MPIB_CTL_LISTEN);
	fake_proxy_return(f);
	until_listen_is_late(listener);
	mpib_close_listen(listener);
	fake_end_slow(f);
	until(MPIB_CTL_CLOSE_LISTEN, closes + 1);
	goes_on(tx);
}

/* No other request of the helper follows that would read the late answer. */
CASE(an_accept_waits_for_the_late_answer_of_its_listener)
{
	struct mpib_listener *listener;
	struct mpib_handle handle;
	struct mpib_conn *waits;

	assert_int_equal(mpib_listen(c, &handle, &listener), 0);
	atomic_store(&f->accept_key, 0);
	assert_int_equal(mpib_accept(listener, &waits), 0);
	dies();
	atomic_store(&f->slow, MPIB_CTL_LISTEN);
	fake_proxy_return(f);
	until_listen_is_late(listener);
	fake_end_slow(f);
	while (mpib_conn_goes_on(waits) == 0)
		sched_yield();
	assert_int_equal(mpib_conn_goes_on(waits), 1);
}

/* The helper still waits for the answer about `rx`. */
CASE(a_connect_that_is_closed_in_a_resume_is_closed_at_the_proxy)
{
	unsigned closes = asked(MPIB_CTL_CLOSE);
	struct mpib_handle handle;
	struct mpib_listener *listener;
	struct mpib_conn *waits;

	assert_int_equal(mpib_listen(c, &handle, &listener), 0);
	atomic_store(&f->hold_pending, true);
	assert_int_equal(mpib_connect(c, &handle, -1, &waits), 0);
	atomic_store(&f->hold_pending, false);
	dies();
	atomic_store(&f->slow, MPIB_CTL_RESUME);
	fake_proxy_return(f);
	until_late(rx);
	mpib_close(waits);
	until(MPIB_CTL_CLOSE, closes + 1);
	fake_end_slow(f);
	goes_on(rx);
}

CASE(a_late_refusal_is_reported)
{
	int rc = 0;

	dies();
	atomic_store(&f->slow, MPIB_CTL_RESUME);
	fake_proxy_return(f);
	until_late(rx);
	atomic_store(&f->refuse_resume, -ENOSPC);
	fake_end_slow(f);
	while (rc == 0)
		rc = mpib_conn_goes_on(rx);
	assert_int_equal(rc, -ENOSPC);
	assert_string_equal(mpib_strerror(), "no such luck");
	goes_on(tx);
}

CASE(a_refused_listener_fails_only_its_own_accepts)
{
	struct mpib_handle handle;
	struct mpib_listener *listener;
	struct mpib_conn *waits;

	assert_int_equal(mpib_listen(c, &handle, &listener), 0);
	atomic_store(&f->accept_key, 0);
	assert_int_equal(mpib_accept(listener, &waits), 0);
	dies();
	atomic_store(&f->refuse_listen, -ENOSPC);
	fake_proxy_return(f);
	goes_on(tx);
	goes_on(rx);
	while (mpib_ready(waits) == 0)
		sched_yield();
	assert_int_equal(mpib_ready(waits), -ENOENT);
}
