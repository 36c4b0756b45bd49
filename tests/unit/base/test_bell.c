/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/bell.h: a ring and an owner in each order that their steps can have. Two
 * cores at once are tests/litmus's.
 */
#include <poll.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/bell.h"
#include "test.h"

static struct mpib_bell bell;
/* What happens in a ringer before its write reaches the kernel. */
static void (*meanwhile)(void);
static unsigned writes, heard;

ssize_t __real_write(int fd, const void *buf, size_t n);
ssize_t __wrap_write(int fd, const void *buf, size_t n);

ssize_t __wrap_write(int fd, const void *buf, size_t n)
{
	void (*fn)(void) = meanwhile;

	meanwhile = NULL;
	writes++;
	if (fn)
		fn();
	return __real_write(fd, buf, n);
}

static int setup(void **state)
{
	writes = heard = 0;
	return mpib_bell_init(&bell);
}

static int teardown(void **state)
{
	mpib_bell_fini(&bell);
	return 0;
}

static bool readable(void)
{
	struct pollfd p = { .fd = bell.fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void hear(void)
{
	heard += mpib_bell_heard(&bell);
}

static void it_is_readable_from_the_ring_until_it_is_heard(void **state)
{
	assert_false(mpib_bell_heard(&bell));
	assert_false(readable());
	mpib_bell_ring(&bell);
	assert_true(readable());
	assert_true(mpib_bell_heard(&bell));
	assert_false(readable());
	assert_false(mpib_bell_heard(&bell));
}

static void many_rings_are_one_system_call(void **state)
{
	for (int i = 0; i < 1000; i++)
		mpib_bell_ring(&bell);
	assert_int_equal(writes, 1);
	assert_true(mpib_bell_heard(&bell));
	assert_false(mpib_bell_heard(&bell));
	mpib_bell_ring(&bell);
	assert_int_equal(writes, 2);
}

static void what_is_heard_before_it_is_written_is_heard_twice(void **state)
{
	meanwhile = hear;
	mpib_bell_ring(&bell);
	assert_int_equal(heard, 1);
	assert_true(readable());
	assert_true(mpib_bell_heard(&bell));
	assert_false(readable());
}

static void hear_often_and_ring(void)
{
	for (int i = 0; i < 1000; i++)
		hear();
	mpib_bell_ring(&bell);
}

static void a_ring_behind_one_that_is_not_yet_written_wakes(void **state)
{
	meanwhile = hear_often_and_ring;
	mpib_bell_ring(&bell);
	assert_int_equal(heard, 1000);
	assert_int_equal(writes, 1);
	assert_true(readable());
	assert_true(mpib_bell_heard(&bell));
	assert_false(readable());
}

static void a_counter_that_is_full_still_wakes(void **state)
{
	assert_int_equal(eventfd_write(bell.fd, UINT64_MAX - 1), 0);
	mpib_bell_ring(&bell);
	assert_true(readable());
	assert_true(mpib_bell_heard(&bell));
	assert_false(readable());
}

const struct CMUnitTest test_list[] = {
	fixture_test(it_is_readable_from_the_ring_until_it_is_heard),
	fixture_test(many_rings_are_one_system_call),
	fixture_test(what_is_heard_before_it_is_written_is_heard_twice),
	fixture_test(a_ring_behind_one_that_is_not_yet_written_wakes),
	fixture_test(a_counter_that_is_full_still_wakes),
	{ 0 },
};
