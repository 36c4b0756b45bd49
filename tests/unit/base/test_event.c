/* SPDX-License-Identifier: Apache-2.0 */
/* base/event.h: the journal keeps the last events, in order, and logs each. */
#include <time.h>

#include "base/event.h"
#include "test.h"

static char logged[256];
static struct mpib_event got[2 * MPIB_EVENTS];

static void sink(enum mpib_log_level level, const char *line)
{
	(void)level;
	strncpy(logged, line, sizeof(logged) - 1);
}

static uint64_t newest(void)
{
	uint64_t last;

	mpib_events_after(UINT64_MAX, got, 1, &last);
	return last;
}

static void an_event_is_logged_and_kept_with_what_it_is_about(void **state)
{
	const struct mpib_event_about about = {
		.rails = 2, .client = 7, .peer = "a:1", .ns = 5, .bytes = 6
	};
	uint64_t before = newest(), last;

	mpib_event(MPIB_LOG_WARN, "rail_down", &about, "rail %s", "SUP");
	assert_string_equal(logged, "rail SUP");
	assert_int_equal(mpib_events_after(before, got, 8, &last), 1);
	assert_int_equal(last, before + 1);
	assert_int_equal(got[0].seq, last);
	assert_string_equal(got[0].kind, "rail_down");
	assert_string_equal(got[0].text, "rail SUP");
	assert_string_equal(got[0].peer, "a:1");
	assert_int_equal(got[0].rails, 2);
	assert_int_equal(got[0].client, 7);
	assert_int_equal(got[0].ns, 5);
	assert_int_equal(got[0].bytes, 6);
	assert_true(got[0].time_ns > 0);
}

static void an_event_below_the_log_level_is_kept_too(void **state)
{
	uint64_t before = newest(), last;

	logged[0] = '\0';
	mpib_event(MPIB_LOG_DEBUG, "set", NULL, "quiet");
	assert_string_equal(logged, "");
	assert_int_equal(mpib_events_after(before, got, 8, &last), 1);
}

static void only_the_last_are_kept_and_the_gap_shows(void **state)
{
	uint64_t before = newest(), last;

	for (unsigned i = 0; i < MPIB_EVENTS + 10; i++)
		mpib_event(MPIB_LOG_DEBUG, "set", NULL, "%u", i);
	assert_int_equal(mpib_events_after(before, got, 2 * MPIB_EVENTS, &last),
			 MPIB_EVENTS);
	assert_int_equal(got[0].seq, before + 11);
	assert_string_equal(got[0].text, "10");
	assert_int_equal(got[MPIB_EVENTS - 1].seq, last);
	assert_int_equal(mpib_events_after(last - 3, got, 2, &last), 2);
	assert_int_equal(got[1].seq, last - 1);
}

static void nothing_comes_after_the_newest(void **state)
{
	uint64_t last;

	assert_int_equal(mpib_events_after(newest(), got, 8, &last), 0);
	assert_int_equal(mpib_events_after(newest() + 5, got, 8, &last), 0);
	assert_int_equal(mpib_events_after(UINT64_MAX, got, 8, &last), 0);
}

static uint64_t clock_ns;

int __real_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts);

int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	if (id != CLOCK_MONOTONIC)
		return __real_clock_gettime(id, ts);
	ts->tv_sec = (time_t)(clock_ns / 1000000000);
	ts->tv_nsec = (long)(clock_ns % 1000000000);
	return 0;
}

/* How many of n events of the user are told, and the last of these. */
static unsigned tell_of_user(uint32_t uid, unsigned n)
{
	const struct mpib_event_about about = { .of_user = true, .uid = uid };
	uint64_t before = newest(), last;
	unsigned told;

	for (unsigned i = 0; i < n; i++)
		mpib_event(MPIB_LOG_DEBUG, "client_leaves", &about, "%u", i);
	told = mpib_events_after(before, got, 2 * MPIB_EVENTS, &last);
	if (told)
		got[0] = got[told - 1];
	return told;
}

static void a_user_has_a_share_of_the_events(void **state)
{
	clock_ns = 3600 * 1000000000ull;
	assert_int_equal(tell_of_user(1000, 2 * MPIB_EVENTS), MPIB_EVENTS_USER);
	assert_string_equal(got[0].text,
			    "[more of uid 1000 now are left out] 127");
	/* It is his alone. */
	assert_int_equal(tell_of_user(1001, 1), 1);
	assert_string_equal(got[0].text, "0");
	clock_ns += MPIB_EVENTS_USER_NS - 1;
	assert_int_equal(tell_of_user(1000, 1), 0);
	clock_ns++;
	assert_int_equal(tell_of_user(1000, 2), 1);
	assert_string_equal(got[0].text, "[897 of uid 1000 left out] 0");
	/* Who tells little meanwhile has it whole again. */
	clock_ns += 2 * MPIB_EVENTS * MPIB_EVENTS_USER_NS;
	assert_int_equal(tell_of_user(1000, MPIB_EVENTS), MPIB_EVENTS_USER);
}

/* Others than there is room for: the one that told nothing for longest goes. */
static void many_users_have_shares_of_the_events(void **state)
{
	for (uint32_t uid = 0; uid < 100; uid++) {
		clock_ns++;
		assert_int_equal(tell_of_user(5000 + uid, 1), 1);
	}
	clock_ns++;
	assert_int_equal(tell_of_user(5099, MPIB_EVENTS), MPIB_EVENTS_USER - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			an_event_is_logged_and_kept_with_what_it_is_about),
		cmocka_unit_test(an_event_below_the_log_level_is_kept_too),
		cmocka_unit_test(only_the_last_are_kept_and_the_gap_shows),
		cmocka_unit_test(nothing_comes_after_the_newest),
		cmocka_unit_test(a_user_has_a_share_of_the_events),
		cmocka_unit_test(many_users_have_shares_of_the_events),
	};

	mpib_log_set_sink(sink);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
