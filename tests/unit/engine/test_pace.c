/* SPDX-License-Identifier: Apache-2.0 */
/* engine/pace.h: when to spin, yield, give way and sleep, by times that the
 * test sets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/pace.h"

#define US 1000ull
#define MS 1000000ull
#define OWN 200ull /* ns, of a yield that nobody takes */

static struct mpib_pace p;

static int setup(void **state)
{
	(void)state;
	mpib_pace_init(&p);
	return 0;
}

/* How long it looks, at one look a us, before it sleeps. */
static uint64_t patience(uint64_t now)
{
	uint64_t begun = now;

	while (mpib_pace_idle(&p, now) != MPIB_WAIT_SLEEP)
		now += US;
	return now - begun;
}

static void it_yields_at_every_look_while_others_take_the_core(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		assert_int_equal(mpib_pace_idle(&p, MS), MPIB_WAIT_YIELD);
		mpib_pace_yielded(&p, MS, i % 10 ? OWN : 3 * US);
	}
}

static void have_the_core_alone(void)
{
	unsigned yields = 0;

	for (unsigned i = 0; i < 1000; i++) {
		if (mpib_pace_idle(&p, MS) != MPIB_WAIT_YIELD)
			continue;
		mpib_pace_yielded(&p, MS, OWN);
		yields++;
	}
	/* 64, and of the rest each eighth. */
	assert_int_equal(yields, 64 + (1000 - 64) / 8);
}

static void alone_on_its_core_it_looks_more_often_than_it_yields(void **state)
{
	(void)state;
	have_the_core_alone();
}

static void one_yield_that_is_taken_tells_of_company(void **state)
{
	(void)state;
	have_the_core_alone();
	while (mpib_pace_idle(&p, MS) != MPIB_WAIT_YIELD)
		;
	mpib_pace_yielded(&p, MS, 5 * US);
	it_yields_at_every_look_while_others_take_the_core(state);
}

static void work_begins_the_wait_anew(void **state)
{
	uint64_t long_ago = 10 * MS;

	(void)state;
	assert_int_not_equal(mpib_pace_idle(&p, MS), MPIB_WAIT_SLEEP);
	assert_int_equal(mpib_pace_idle(&p, long_ago), MPIB_WAIT_SLEEP);
	mpib_pace_busy(&p);
	assert_int_not_equal(mpib_pace_idle(&p, long_ago), MPIB_WAIT_SLEEP);
}

static void a_short_sleep_makes_it_more_patient_within_a_bound(void **state)
{
	uint64_t was = patience(MS), is = was;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		mpib_pace_slept(&p, 10 * US);
		is = patience(MS);
		assert_true(is >= was);
		was = is;
	}
	assert_int_equal(is, 200 * US);
}

static void a_long_sleep_makes_it_less_patient_within_a_bound(void **state)
{
	uint64_t was = patience(MS), is = was;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		mpib_pace_slept(&p, 100 * MS);
		is = patience(MS);
		assert_true(is <= was);
		was = is;
	}
	assert_int_equal(is, 5 * US);
}

static void it_is_shared_while_tenants_take_turns(void **state)
{
	static const char one, other;
	uint64_t now = MS;

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		mpib_pace_serve(&p, &one, now);
		assert_false(mpib_pace_is_shared(&p, now));
		now += MS;
	}
	mpib_pace_serve(&p, &other, now);
	assert_true(mpib_pace_is_shared(&p, now));
	assert_true(mpib_pace_is_shared(&p, now + 99 * MS));
	assert_false(mpib_pace_is_shared(&p, now + 100 * MS));
}

static void it_gives_way_once_in_a_while(void **state)
{
	uint64_t now = MS;
	unsigned yields = 0;

	(void)state;
	mpib_pace_yielded(&p, now, OWN);
	for (unsigned i = 0; i < 3000; i++, now += US) {
		if (!mpib_pace_gives_way(&p, now))
			continue;
		mpib_pace_yielded(&p, now, 100 * US);
		yields++;
	}
	assert_int_equal(yields, (3000 - 1) / 30);
}

static void a_look_in_vain_begins_its_run_anew(void **state)
{
	(void)state;
	mpib_pace_yielded(&p, MS, OWN);
	mpib_pace_idle(&p, MS + 20 * US);
	assert_false(mpib_pace_gives_way(&p, MS + 40 * US));
	assert_true(mpib_pace_gives_way(&p, MS + 50 * US));
}

/* When it gives way next, in steps of a us. */
static uint64_t gives_way_after(uint64_t now)
{
	uint64_t begun = now;

	while (!mpib_pace_gives_way(&p, now))
		now += US;
	return now - begun;
}

static void beside_other_load_it_seldom_gives_way(void **state)
{
	uint64_t now = MS, waits = 0, was = 0;

	(void)state;
	for (unsigned i = 0; i < 10; i++, was = waits) {
		now += 5 * MS;
		mpib_pace_yielded(&p, now, 5 * MS);
		waits = gives_way_after(now);
		assert_int_equal(waits, i == 0	? 4 * MS
					: i < 7 ? 2 * was
						: 256 * MS);
		now += waits;
	}
	/* A few that are short do not mean that it is gone. */
	mpib_pace_yielded(&p, now, 10 * US);
	now += 3 * MS;
	mpib_pace_yielded(&p, now, 3 * MS);
	assert_int_equal(gives_way_after(now), 256 * MS);
}

static void long_yields_that_are_rare_cost_little_of_its_ways(void **state)
{
	uint64_t now = MS;

	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		now += 300 * MS;
		mpib_pace_yielded(&p, now, 3 * MS);
		assert_int_equal(gives_way_after(now), 4 * MS);
	}
}

/* What does not give way yields when it is idle, and may hear the same. */
static void long_yields_while_it_keeps_the_core_count_once(void **state)
{
	uint64_t now = 400 * MS;

	(void)state;
	mpib_pace_yielded(&p, now, 3 * MS);
	mpib_pace_yielded(&p, now + 2 * MS, 2 * MS);
	assert_int_equal(gives_way_after(now), 4 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(
			it_yields_at_every_look_while_others_take_the_core,
			setup),
		cmocka_unit_test_setup(
			alone_on_its_core_it_looks_more_often_than_it_yields,
			setup),
		cmocka_unit_test_setup(one_yield_that_is_taken_tells_of_company,
				       setup),
		cmocka_unit_test_setup(work_begins_the_wait_anew, setup),
		cmocka_unit_test_setup(
			a_short_sleep_makes_it_more_patient_within_a_bound,
			setup),
		cmocka_unit_test_setup(
			a_long_sleep_makes_it_less_patient_within_a_bound,
			setup),
		cmocka_unit_test_setup(it_is_shared_while_tenants_take_turns,
				       setup),
		cmocka_unit_test_setup(it_gives_way_once_in_a_while, setup),
		cmocka_unit_test_setup(a_look_in_vain_begins_its_run_anew,
				       setup),
		cmocka_unit_test_setup(beside_other_load_it_seldom_gives_way,
				       setup),
		cmocka_unit_test_setup(
			long_yields_that_are_rare_cost_little_of_its_ways,
			setup),
		cmocka_unit_test_setup(
			long_yields_while_it_keeps_the_core_count_once, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
