/* SPDX-License-Identifier: Apache-2.0 */
/* stats/command.h: numbers and connections in commands. */
#include "stats/command.h"
#include "test.h"

static char line[128];
static struct mpib_ask ask;

static const struct mpib_command *parse(const char *text)
{
	snprintf(line, sizeof(line), "%s", text);
	ask = (struct mpib_ask){ .by_admin_sock = true };
	return mpib_command_parse(line, &ask);
}

TEST(a_number_must_be_digits_and_in_its_range)
{
	static const char *const bad[] = { "events -1", "events x", "events 1x",
					   "events +1",
					   "events 99999999999999999999" };
	uint64_t n;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_non_null(parse(bad[i]));
		assert_false(mpib_ask_number(&ask, 0, 7, INT64_MAX, &n));
		assert_true(ask.error[0]);
	}
	assert_non_null(parse("events 12"));
	assert_true(mpib_ask_number(&ask, 0, 7, 12, &n));
	assert_int_equal(n, 12);
	assert_false(mpib_ask_number(&ask, 0, 7, 11, &n));
	assert_non_null(parse("events"));
	assert_true(mpib_ask_number(&ask, 0, 7, 12, &n));
	assert_int_equal(n, 7);
}

TEST(a_connection_is_named_by_two_valid_numbers)
{
	static const char *const bad[] = { "",
					   "7",
					   ".",
					   "7.",
					   ".0",
					   "7.x",
					   "x.0",
					   "7.0 ",
					   " 7.0",
					   "7. 0",
					   "7.0.1",
					   "-7.0",
					   "7.-0",
					   "7 .0",
					   "+7.0",
					   "4294967296.0",
					   "4294967297.0",
					   "7.4294967296",
					   "7.4294967295",
					   "99999999999999999999.0",
					   "7.99999999999999999999" };
	uint32_t client, index;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (mpib_ask_conn(bad[i], &client, &index))
			fail_msg("\"%s\" is %u.%u", bad[i], client, index);
	}
	assert_true(mpib_ask_conn("7.12", &client, &index));
	assert_int_equal(client, 7);
	assert_int_equal(index, 12);
	assert_true(mpib_ask_conn("4294967295.0", &client, &index));
	assert_int_equal(client, UINT32_MAX);
}
