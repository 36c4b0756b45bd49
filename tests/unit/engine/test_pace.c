/* SPDX-License-Identifier: Apache-2.0 */
/* engine/pace.h: when to spin, yield, give way and sleep, by times that the
 * test sets. */
#include "engine/pace.h"
#include "test.h"

#define US 1000ull
#define MS 1000000ull
#define OWN 200ull /* ns, of a yield that nobody takes */

static struct mpib_pace p;

static int setup(void **state)
{
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
	have_the_core_alone();
}

static void one_yield_that_is_taken_tells_of_company(void **state)
{
	have_the_core_alone();
	while (mpib_pace_idle(&p, MS) != MPIB_WAIT_YIELD)
		;
	mpib_pace_yielded(&p, MS, 5 * US);
	it_yields_at_every_look_while_others_take_the_core(state);
}

static void work_begins_the_wait_anew(void **state)
{
	uint64_t long_ago = 10 * MS;

	assert_int_not_equal(mpib_pace_idle(&p, MS), MPIB_WAIT_SLEEP);
	assert_int_equal(mpib_pace_idle(&p, long_ago), MPIB_WAIT_SLEEP);
	mpib_pace_busy(&p);
	assert_int_not_equal(mpib_pace_idle(&p, long_ago), MPIB_WAIT_SLEEP);
}

static void a_short_sleep_makes_it_more_patient_within_a_bound(void **state)
{
	uint64_t was = patience(MS), is = was;

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

static void a_tenant_that_left_shares_with_nobody(void **state)
{
	static const char one, other;
	uint64_t now = MS;

	/* Whether the next one has the address of the one before or not. */
	mpib_pace_serve(&p, &one, now);
	mpib_pace_forget(&p, &one);
	mpib_pace_serve(&p, &other, now);
	assert_false(mpib_pace_is_shared(&p, now));
	mpib_pace_forget(&p, &one);
	mpib_pace_serve(&p, &one, now);
	assert_true(mpib_pace_is_shared(&p, now));
}

static void it_gives_way_once_in_a_while(void **state)
{
	uint64_t now = MS;
	unsigned yields = 0;

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

static void it_keeps_the_core_for_a_part_of_what_a_yield_took(void **state)
{
	mpib_pace_yielded(&p, MS, 40 * US);
	assert_int_equal(gives_way_after(MS), 30 * US);
	mpib_pace_yielded(&p, 2 * MS, 800 * US);
	assert_int_equal(gives_way_after(2 * MS), 200 * US);
}

static void beside_other_load_it_has_the_core_half_of_the_time(void **state)
{
	for (uint64_t ms = 3; ms < 10; ms++) {
		mpib_pace_yielded(&p, 100 * MS, ms * MS);
		assert_int_equal(gives_way_after(100 * MS), ms * MS);
	}
}

/* From now on, in ms, until it would yield again. */
static uint64_t sleeps_for(uint64_t now)
{
	uint64_t ms = 0;

	while (mpib_pace_idle(&p, now + ms * MS) == MPIB_WAIT_SLEEP) {
		mpib_pace_slept(&p, 50 * US);
		ms++;
	}
	mpib_pace_busy(&p);
	return ms;
}

static void after_a_dear_yield_it_sleeps_at_once_for_a_while(void **state)
{
	mpib_pace_yielded(&p, MS, 900 * US);
	assert_int_equal(sleeps_for(MS), 0);
	mpib_pace_yielded(&p, 2 * MS, 3 * MS);
	assert_int_equal(sleeps_for(2 * MS), 8);
}

static void while_yields_stay_dear_it_sleeps_for_half_a_second(void **state)
{
	const uint64_t want[] = { 8, 16, 32, 64, 128, 256, 500, 500, 500 };
	uint64_t now = 1000 * MS;

	for (unsigned i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		mpib_pace_yielded(&p, now, MS);
		assert_int_equal(sleeps_for(now), want[i]);
		now += want[i] * MS;
	}
}

static void yields_that_were_cheap_for_as_long_are_trusted_again(void **state)
{
	mpib_pace_yielded(&p, MS, MS);
	mpib_pace_yielded(&p, 9 * MS, MS);
	/* To 25 ms, and cheap up to 41. */
	mpib_pace_yielded(&p, 41 * MS - 1, MS);
	assert_int_equal(sleeps_for(41 * MS), 32);
	mpib_pace_yielded(&p, 200 * MS, MS);
	assert_int_equal(sleeps_for(200 * MS), 8);
}

/* A shared shard yields with work at hand, whatever its last yields took. */
static void a_dear_yield_amid_such_a_while_makes_that_longer(void **state)
{
	mpib_pace_yielded(&p, MS, MS);
	mpib_pace_yielded(&p, 4 * MS, MS);
	assert_int_equal(sleeps_for(4 * MS), 16);
}

/* One's run is the other's yield, but for the ranks' few us. */
static void two_that_yield_to_each_other_come_to_short_runs(void **state)
{
	uint64_t now = MS, run = 2000 * US;

	for (unsigned i = 0; i < 10; i++) {
		mpib_pace_yielded(&p, now, run + 20 * US);
		run = gives_way_after(now);
		now += run;
	}
	assert_int_equal(run, 30 * US);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test_setup(after_a_dear_yield_it_sleeps_at_once_for_a_while,
			       setup),
	cmocka_unit_test_setup(
		while_yields_stay_dear_it_sleeps_for_half_a_second, setup),
	cmocka_unit_test_setup(
		yields_that_were_cheap_for_as_long_are_trusted_again, setup),
	cmocka_unit_test_setup(a_dear_yield_amid_such_a_while_makes_that_longer,
			       setup),
	cmocka_unit_test_setup(
		it_yields_at_every_look_while_others_take_the_core, setup),
	cmocka_unit_test_setup(
		alone_on_its_core_it_looks_more_often_than_it_yields, setup),
	cmocka_unit_test_setup(one_yield_that_is_taken_tells_of_company, setup),
	cmocka_unit_test_setup(work_begins_the_wait_anew, setup),
	cmocka_unit_test_setup(
		a_short_sleep_makes_it_more_patient_within_a_bound, setup),
	cmocka_unit_test_setup(
		a_long_sleep_makes_it_less_patient_within_a_bound, setup),
	cmocka_unit_test_setup(it_is_shared_while_tenants_take_turns, setup),
	cmocka_unit_test_setup(a_tenant_that_left_shares_with_nobody, setup),
	cmocka_unit_test_setup(it_gives_way_once_in_a_while, setup),
	cmocka_unit_test_setup(a_look_in_vain_begins_its_run_anew, setup),
	cmocka_unit_test_setup(
		it_keeps_the_core_for_a_part_of_what_a_yield_took, setup),
	cmocka_unit_test_setup(
		beside_other_load_it_has_the_core_half_of_the_time, setup),
	cmocka_unit_test_setup(two_that_yield_to_each_other_come_to_short_runs,
			       setup),
	{ 0 },
};
