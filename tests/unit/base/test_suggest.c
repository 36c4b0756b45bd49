/* SPDX-License-Identifier: Apache-2.0 */
/* base/suggest.h. */
#include "base/suggest.h"

#include "test.h"

static void distance_counts_edits(void **state)
{
	char longer[100];

	memset(longer, 'a', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	assert_int_equal(mpib_edit_distance("", ""), 0);
	assert_int_equal(mpib_edit_distance("", "abc"), 3);
	assert_int_equal(mpib_edit_distance("abc", "abc"), 0);
	assert_int_equal(mpib_edit_distance("kitten", "sitting"), 3);
	assert_int_equal(mpib_edit_distance("rails", "rail"), 1);
	assert_int_equal(mpib_edit_distance(longer, "a"), 63);
}

static void only_what_is_near_is_suggested(void **state)
{
	struct mpib_suggest s = { .typed = "cleints" };
	struct mpib_suggest far = { .typed = "zzz" };

	assert_null(mpib_suggest_best(&s));
	mpib_suggest_try(&s, "rails");
	mpib_suggest_try(&s, "clients");
	mpib_suggest_try(&s, "conns");
	assert_string_equal(mpib_suggest_best(&s), "clients");
	mpib_suggest_try(&far, "clients");
	assert_null(mpib_suggest_best(&far));
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(distance_counts_edits),
	cmocka_unit_test(only_what_is_near_is_suggested),
	{ 0 },
};
