/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/split/adapt.h"
#include "test.h"

#define MIB (1u << 20)

static struct mpib_choice c;

static int setup(void **state)
{
	mpib_choice_init(&c, 8);
	return 0;
}

/* n parts of bytes, each on an idle rail: a way takes a time to begin with, and
 * some per KiB. How many were spread. */
static unsigned parts(unsigned n, uint32_t bytes, const uint64_t *fixed_ns,
		      const uint64_t *kib_ns)
{
	unsigned spread = 0;

	for (unsigned i = 0; i < n; i++) {
		bool way = mpib_choice_spread(&c, bytes);

		mpib_choice_posted(&c, bytes);
		spread += way;
		mpib_choice_note(&c, bytes, way,
				 fixed_ns[way] + kib_ns[way] * (bytes / 1024),
				 0);
	}
	return spread;
}

setup_test(the_first_parts_go_either_way_by_turns)
{
	for (unsigned i = 0; i < MPIB_CHOICE_FIRST; i++) {
		/* What finds no room asks again, and is no try. */
		for (unsigned again = 0; again < 3; again++)
			assert_int_equal(mpib_choice_spread(&c, MIB), i % 2);
		mpib_choice_posted(&c, MIB);
	}
	assert_false(mpib_choice_spread(&c, MIB));
	assert_int_equal(c.above, UINT32_MAX);
}

setup_test(now_and_then_a_part_goes_the_other_way)
{
	for (unsigned i = 0; i + 1 < MPIB_CHOICE_TRY; i++)
		mpib_choice_posted(&c, MIB);
	for (unsigned i = 0; i < 3; i++)
		assert_true(mpib_choice_spread(&c, MIB));
	mpib_choice_posted(&c, MIB);
	assert_false(mpib_choice_spread(&c, MIB));
	assert_int_equal(c.above, UINT32_MAX);
}

setup_test(the_crossover_is_where_the_costs_cross)
{
	static const uint64_t fixed[2] = { 10000, 200000 };
	static const uint64_t kib[2] = { 100, 40 };

	/* Equal at 3.1 MiB: (200000 - 10000) / (100 - 40) KiB. */
	for (unsigned round = 0; round < 40; round++) {
		for (uint32_t bytes = MIB / 4; bytes <= 32 * MIB; bytes *= 2)
			parts(8, bytes, fixed, kib);
	}
	assert_in_range(c.above, 2 * MIB - 1, 4 * MIB - 1);
	assert_true(parts(320, 16 * MIB, fixed, kib) > 300);
	assert_true(parts(320, MIB, fixed, kib) < 20);
}

setup_test(what_changes_is_noticed)
{
	static const uint64_t fixed[2] = { 10000, 10000 };
	static const uint64_t slow_qp[2] = { 100, 30 },
			      slow_fan[2] = { 30, 100 };

	parts(1000, 8 * MIB, fixed, slow_qp);
	assert_true(c.above < 8 * MIB);
	parts(1000, 8 * MIB, fixed, slow_fan);
	assert_int_equal(c.above, UINT32_MAX);
	parts(1000, 8 * MIB, fixed, slow_qp);
	assert_true(c.above < 8 * MIB);
}

setup_test(nearly_equal_ways_do_not_alternate)
{
	static const uint64_t fixed[2] = { 10000, 10000 };
	static const uint64_t a[2] = { 100, 95 }, b[2] = { 95, 100 };

	for (unsigned i = 0; i < 100; i++) {
		parts(MPIB_CHOICE_TRY, MIB, fixed, i % 2 ? a : b);
		assert_int_equal(c.above, UINT32_MAX);
	}
}

/* What is ahead of a part is no fault of its way. */
setup_test(a_queue_is_taken_into_account)
{
	for (unsigned i = 0; i < 200; i++) {
		bool way = mpib_choice_spread(&c, MIB);

		mpib_choice_posted(&c, MIB);
		/* Spread parts find a queue of 7 MiB, at twice the rate. */
		if (way)
			mpib_choice_note(&c, MIB, true, 8 * 50000, 7 * MIB);
		else
			mpib_choice_note(&c, MIB, false, 100000, 0);
	}
	assert_int_equal(c.above, MIB - 1);
}
