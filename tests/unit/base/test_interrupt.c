/* SPDX-License-Identifier: Apache-2.0 */
/* A wait that is interrupted, and where the kernel has no timer for that. */
#include "base/interrupt.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "test.h"

static unsigned told;

static void count(enum mpib_log_level level, const char *line)
{
	told += level == MPIB_LOG_WARN && strstr(line, "LimitSIGPENDING");
}

static void a_wait_ends(void **state)
{
	timer_t timer;

	assert_int_equal(mpib_interrupts_begin(&timer), 0);
	assert_int_equal(pause(), -1);
	assert_int_equal(errno, EINTR);
	timer_delete(timer);
}

/* A socket that lingers takes a thread then, which is said once. */
static void without_a_timer_it_is_told(void **state)
{
	struct rlimit pending, none;
	timer_t timer;

	assert_int_equal(getrlimit(RLIMIT_SIGPENDING, &pending), 0);
	none = (struct rlimit){ 0, pending.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_SIGPENDING, &none), 0);
	mpib_log_set_sink(count);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(mpib_interrupts_begin(&timer), -EAGAIN);
	mpib_log_set_sink(NULL);
	assert_int_equal(setrlimit(RLIMIT_SIGPENDING, &pending), 0);
	assert_int_equal(told, 1);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(a_wait_ends),
	cmocka_unit_test(without_a_timer_it_is_told),
	{ 0 },
};
