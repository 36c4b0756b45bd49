/* SPDX-License-Identifier: Apache-2.0 */
#include "base/waking.h"

#include "test.h"

/* A call that took so much CPU. */
static bool call(uid_t user, uint64_t ns)
{
	uint64_t began = mpib_waking_begin();

	while (mpib_waking_begin() - began < ns)
		;
	return mpib_waking_end(user, began);
}

static void who_wakes_few_is_served(void **state)
{
	for (unsigned i = 0; i < 1000; i++)
		assert_true(call(1, 0));
}

/* One at once, or many that take less; what takes as little as a call does is
 * nobody's fault, and not another user's. */
static void who_wakes_a_crowd_is_not(void **state)
{
	unsigned n = 0;

	assert_false(call(2, 30000000));
	assert_true(call(2, 0));
	assert_true(call(3, 1000000));
	while (n < 100 && call(4, 3000000))
		n++;
	assert_in_range(n, 5, 9);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(who_wakes_few_is_served),
	cmocka_unit_test(who_wakes_a_crowd_is_not),
	{ 0 },
};
