/* SPDX-License-Identifier: Apache-2.0 */
#include "base/users.h"

#include <sys/socket.h>

#include "test.h"

static uint64_t send_ns; /* CPU time that each send() takes in addition */

static void work(uint64_t ns)
{
	uint64_t began = mpib_waking_begin();

	while (mpib_waking_begin() - began < ns)
		;
}

WRAPS(ssize_t, send, int sock, const void *buf, size_t len, int flags)
{
	work(send_ns);
	return __real_send(sock, buf, len, flags);
}

/* Simulate a call of the client that uses `ns` of CPU time. Return whether the
 * client is still served. */
static bool call(struct mpib_waking *w, uint64_t ns)
{
	uint64_t began = mpib_waking_begin();

	work(ns);
	return mpib_waking_end(w, began);
}

TEST(a_client_whose_calls_wake_few_waiters_is_served)
{
	struct mpib_waking w = { 0 };

	for (unsigned i = 0; i < 1000; i++)
		assert_true(call(&w, 0));
}

/* All calls of the client `all` take long. Of the calls of the client `some`,
 * every second takes long. */
TEST(a_client_whose_calls_wake_many_waiters_is_not_served)
{
	struct mpib_waking all = { 0 }, some = { 0 };
	unsigned n = 0;

	while (n < 100 && call(&all, 5000000))
		n++;
	assert_int_equal(n, 4);
	for (n = 0; n < 100 && call(&some, n % 2 ? 0 : 5000000);)
		n++;
	assert_in_range(n, 8, 20);
}

/* A proxy in an emulated or very busy machine is slow at every socket. */
TEST(a_client_is_served_where_all_calls_take_long)
{
	struct mpib_waking w = { 0 };

	send_ns = 1000000;
	for (unsigned i = 0; i < 100; i++)
		assert_true(call(&w, 5000000));
	send_ns = 0;
}

/* A few slow calls are ignored, because other processes may have caused
 * them. */
TEST(a_few_slow_calls_are_tolerated)
{
	struct mpib_waking w = { 0 };

	for (unsigned i = 0; i < 20; i++) {
		assert_true(call(&w, 30000000));
		for (unsigned k = 0; k < 4; k++)
			assert_true(call(&w, 0));
	}
}
