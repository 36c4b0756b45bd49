/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/split/adapt.h against two rails that are a queue and a rate each, in time
 * that the test counts: what is carried within a second and after it, beside
 * the sum of the rails and the best static share; steps, idle rails, latency.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/split/adapt.h"
#include "engine/split/policy.h"

#define STEP 10000ull /* ns */
#define SEC 1000000000ull
#define STATIC_NONE UINT32_MAX
#define MSGS 64

/* A message in flight: done when both rails' stripes are. */
struct msg {
	struct mpib_stripe stripe[MPIB_RAILS];
	uint64_t end[MPIB_RAILS]; /* when the rail answers; 0: it has */
	uint32_t len;
};

struct sim {
	struct mpib_tracker track[MPIB_RAILS];
	struct mpib_adapt adapt;
	uint64_t rate[MPIB_RAILS]; /* bytes per s */
	uint64_t delay[MPIB_RAILS]; /* ns, one way and back */
	uint64_t free_at[MPIB_RAILS];
	uint64_t now, done;
	uint64_t sent[MPIB_RAILS];
	uint32_t share; /* STATIC_NONE: adaptive */
	struct msg msg[MSGS];
	unsigned depth;
	uint32_t len;
};

static struct sim s;

static void start(uint64_t sout, uint64_t sup, unsigned depth, uint32_t len)
{
	memset(&s, 0, sizeof(s));
	s.now = SEC;
	s.rate[MPIB_RAIL_SOUT] = sout;
	s.rate[MPIB_RAIL_SUP] = sup;
	s.delay[0] = s.delay[1] = 50000;
	s.share = STATIC_NONE;
	s.depth = depth;
	s.len = len;
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		mpib_tracker_init(&s.track[r]);
	mpib_adapt_init(&s.adapt, s.now);
}

static void post(struct msg *m)
{
	uint32_t share = s.share, rail[MPIB_RAILS];

	if (share == STATIC_NONE)
		share = mpib_adapt_share(&s.adapt, s.track, s.len, s.len,
					 s.now);
	m->len = s.len;
	rail[MPIB_RAIL_SUP] = mpib_sup_bytes(share, s.len);
	rail[MPIB_RAIL_SOUT] = s.len - rail[MPIB_RAIL_SUP];
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		if (!rail[r])
			continue;
		if (s.free_at[r] < s.now)
			s.free_at[r] = s.now;
		s.free_at[r] += rail[r] * SEC / s.rate[r];
		m->end[r] = s.free_at[r] + s.delay[r];
		s.sent[r] += rail[r];
		mpib_tracker_post(&s.track[r], &m->stripe[r], rail[r], s.now);
	}
}

static void step(void)
{
	s.now += STEP;
	for (unsigned i = 0; i < s.depth; i++) {
		struct msg *m = &s.msg[i];

		for (unsigned r = 0; r < MPIB_RAILS; r++) {
			if (!m->end[r] || m->end[r] > s.now)
				continue;
			mpib_tracker_ack(&s.track[r], &m->stripe[r], s.now);
			m->end[r] = 0;
		}
		if (m->end[0] || m->end[1])
			continue;
		s.done += m->len;
		post(m);
	}
}

/* Bytes per s over the time. */
static uint64_t run(uint64_t ns)
{
	uint64_t before = s.done, until = s.now + ns;

	while (s.now < until)
		step();
	return (s.done - before) * SEC / ns;
}

static uint64_t best_static(uint64_t sout, uint64_t sup, unsigned depth,
			    uint32_t len)
{
	uint64_t best = 0;

	for (uint32_t share = 0; share <= 1024; share += 32) {
		uint64_t bw;

		start(sout, sup, depth, len);
		s.share = share;
		run(SEC / 4);
		bw = run(SEC / 2);
		best = bw > best ? bw : best;
	}
	return best;
}

static const struct {
	uint64_t sout, sup;
} pairs[] = {
	{ 100, 25 }, { 400, 234 }, { 234, 400 }, { 100, 100 }, { 10, 90 },
};

static void the_sum_of_both_rails_is_reached_within_a_second(void **state)
{
	static const uint32_t len[] = { 64 << 10, 256 << 10, 1 << 20 };

	(void)state;
	for (unsigned i = 0; i < 5 * 3; i++) {
		uint64_t sout = pairs[i / 3].sout << 20;
		uint64_t sup = pairs[i / 3].sup << 20;
		unsigned depth = 8;
		uint64_t best = best_static(sout, sup, depth, len[i % 3]), bw;

		start(sout, sup, depth, len[i % 3]);
		run(3 * SEC / 4);
		bw = run(SEC / 4);
		assert_in_range(bw, (sout + sup) / 100 * 90, UINT64_MAX);
		bw = run(SEC);
		assert_in_range(bw, best / 100 * 95, UINT64_MAX);
	}
}

static void one_message_at_a_time_is_split_by_the_rates(void **state)
{
	uint64_t best = best_static(100 << 20, 25 << 20, 1, 1 << 20);

	(void)state;
	start(100 << 20, 25 << 20, 1, 1 << 20);
	run(2 * SEC);
	assert_in_range(s.adapt.share, 1024 / 5 - 30, 1024 / 5 + 30);
	assert_in_range(run(SEC), best / 100 * 95, UINT64_MAX);
}

static void a_rail_that_slows_down_and_recovers_is_followed(void **state)
{
	(void)state;
	start(100 << 20, 100 << 20, 8, 256 << 10);
	run(SEC);
	s.rate[MPIB_RAIL_SUP] = 1 << 20;
	run(SEC);
	assert_in_range(run(SEC), 90 << 20, UINT64_MAX);
	s.rate[MPIB_RAIL_SUP] = 100 << 20;
	run(SEC);
	assert_in_range(run(SEC), 180 << 20, UINT64_MAX);
	assert_in_range(s.adapt.share, 512 - 60, 512 + 60);
}

static void the_share_rests_while_the_rails_do_not_change(void **state)
{
	uint64_t since;

	(void)state;
	start(400 << 20, 234 << 20, 8, 1 << 20);
	run(SEC);
	since = s.adapt.since;
	run(4 * SEC);
	assert_int_equal(s.adapt.since, since);
}

static void small_messages_take_the_rail_that_answers_sooner(void **state)
{
	(void)state;
	start(100 << 20, 100 << 20, 1, 1000);
	s.delay[MPIB_RAIL_SOUT] = 80000;
	s.delay[MPIB_RAIL_SUP] = 20000;
	run(SEC);
	assert_int_equal(s.adapt.fast, MPIB_RAIL_SUP);
	assert_in_range(s.sent[MPIB_RAIL_SUP], s.sent[MPIB_RAIL_SOUT] * 50,
			UINT64_MAX);
	/* Each on one rail. */
	assert_int_equal(s.sent[MPIB_RAIL_SUP] % 1000, 0);
	s.delay[MPIB_RAIL_SUP] = 800000;
	run(SEC);
	assert_int_equal(s.adapt.fast, MPIB_RAIL_SOUT);
}

static void a_rail_that_nothing_is_heard_of_is_tried_with_little(void **state)
{
	uint64_t before;

	(void)state;
	start(100 << 20, 100 << 20, 4, 256 << 10);
	s.adapt.share = 1;
	s.adapt.rail[MPIB_RAIL_SUP].rate = 1;
	s.adapt.rail[MPIB_RAIL_SOUT].rate = 100 << 10;
	run(SEC / 10);
	before = s.sent[MPIB_RAIL_SUP];
	assert_in_range(before, 1, 64 << 10);
	run(2 * SEC);
	assert_in_range(s.adapt.share, 512 - 60, 512 + 60);
}

static void a_share_never_leaves_crumbs_for_a_rail(void **state)
{
	(void)state;
	start(400 << 20, 1 << 20, 8, 64 << 10);
	run(SEC);
	for (unsigned i = 0; i < 1000; i++) {
		uint32_t share = mpib_adapt_share(&s.adapt, s.track, 64 << 10,
						  64 << 10, s.now);
		uint32_t sup = mpib_sup_bytes(share, 64 << 10);

		assert_true(sup == 0 || sup >= MPIB_ADAPT_LEAST);
		assert_true(sup == 64 << 10 ||
			    (64 << 10) - sup >= MPIB_ADAPT_LEAST);
		step();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			the_sum_of_both_rails_is_reached_within_a_second),
		cmocka_unit_test(one_message_at_a_time_is_split_by_the_rates),
		cmocka_unit_test(
			a_rail_that_slows_down_and_recovers_is_followed),
		cmocka_unit_test(the_share_rests_while_the_rails_do_not_change),
		cmocka_unit_test(
			small_messages_take_the_rail_that_answers_sooner),
		cmocka_unit_test(
			a_rail_that_nothing_is_heard_of_is_tried_with_little),
		cmocka_unit_test(a_share_never_leaves_crumbs_for_a_rail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
