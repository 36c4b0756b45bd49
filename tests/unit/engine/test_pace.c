/* SPDX-License-Identifier: Apache-2.0 */
/* engine/pace.h: when a shard spins, yields, gives way to other threads, and
 * sleeps. The test sets the time. */
#include "engine/pace.h"
#include "test.h"

#define US 1000ull
#define MS 1000000ull
#define OWN 200ull /* ns that a yield takes if no other thread wants the core */

static struct mpib_pace p;

static int setup(void **state)
{
	mpib_pace_init(&p);
	return 0;
}

/* Return for how long the shard polls before it sleeps. The shard polls once
 * per us. */
static uint64_t patience(uint64_t now)
{
	uint64_t begun = now;

	while (mpib_pace_idle(&p, now) != MPIB_WAIT_SLEEP)
		now += US;
	return now - begun;
}

setup_test(a_shard_yields_at_every_poll_while_other_threads_use_its_core)
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
	/* The shard yields at the first 64 polls and at every eighth poll after
	 * these. */
	assert_int_equal(yields, 64 + (1000 - 64) / 8);
}

setup_test(a_shard_alone_on_its_core_yields_rarely)
{
	have_the_core_alone();
}

setup_test(one_long_yield_shows_that_the_core_is_shared)
{
	have_the_core_alone();
	while (mpib_pace_idle(&p, MS) != MPIB_WAIT_YIELD)
		;
	mpib_pace_yielded(&p, MS, 5 * US);
	a_shard_yields_at_every_poll_while_other_threads_use_its_core(state);
}

setup_test(short_sleeps_lengthen_the_spin_up_to_a_limit)
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

setup_test(long_sleeps_shorten_the_spin_down_to_a_limit)
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

setup_test(a_shard_is_shared_while_tenants_alternate)
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

setup_test(a_busy_shard_yields_every_30_us)
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

/* Return the number of 1 us steps until the shard gives way. */
static uint64_t gives_way_after(uint64_t now)
{
	uint64_t begun = now;

	while (!mpib_pace_gives_way(&p, now))
		now += US;
	return now - begun;
}

setup_test(the_time_between_yields_depends_on_the_duration_of_a_yield)
{
	mpib_pace_yielded(&p, MS, 40 * US);
	assert_int_equal(gives_way_after(MS), 30 * US);
	mpib_pace_yielded(&p, 2 * MS, 800 * US);
	assert_int_equal(gives_way_after(2 * MS), 200 * US);
}

/* Return how many ms after `now` the shard yields again. */
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

setup_test(after_an_expensive_yield_a_shard_sleeps_at_once)
{
	mpib_pace_yielded(&p, MS, 900 * US);
	assert_int_equal(sleeps_for(MS), 0);
	mpib_pace_yielded(&p, 2 * MS, 3 * MS);
	assert_int_equal(sleeps_for(2 * MS), 8);
}

setup_test(expensive_yields_are_avoided_up_to_half_a_second)
{
	const uint64_t want[] = { 8, 16, 32, 64, 128, 256, 500, 500, 500 };
	uint64_t now = 1000 * MS;

	for (unsigned i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		mpib_pace_yielded(&p, now, MS);
		assert_int_equal(sleeps_for(now), want[i]);
		now += want[i] * MS;
	}
}

setup_test(yields_are_used_again_after_they_were_cheap_for_long_enough)
{
	mpib_pace_yielded(&p, MS, MS);
	mpib_pace_yielded(&p, 9 * MS, MS);
	/* The shard may yield again at 25 ms. The interval is reset only if
	 * yields are cheap until 41 ms. */
	mpib_pace_yielded(&p, 41 * MS - 1, MS);
	assert_int_equal(sleeps_for(41 * MS), 32);
	mpib_pace_yielded(&p, 200 * MS, MS);
	assert_int_equal(sleeps_for(200 * MS), 8);
}
