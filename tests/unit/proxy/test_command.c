/* SPDX-License-Identifier: Apache-2.0 */
/* stats/command.h: numbers and connections in commands, and the reasons why a
 * setting is refused. */
#include "stats/command.h"
#include "test.h"

static char line[128];
static struct mpib_ask ask;
static struct mpib_config cfg;

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

TEST(a_share_can_be_set_only_in_static_mode)
{
	const struct mpib_admin admin = { .cfg = &cfg };
	const struct mpib_command *c = parse("set sup.bw 1");

	mpib_config_init(&cfg);
	cfg.engine.mode = MPIB_MODE_ADAPTIVE;
	ask.admin = &admin;
	assert_null(c->fn(&ask));
	assert_string_equal(ask.error, "sup.bw counts in static mode only");
}

TEST(the_refusal_of_a_setting_gives_the_reason)
{
	static const struct {
		const char *line, *error, *hint;
	} each[] = {
		{ "set run.dir /x",
		  "run.dir cannot change while the proxy runs",
		  "change mpib.conf and restart the proxy" },
		{ "set sup.bv 1", "there is no setting \"sup.bv\"",
		  "did you mean sup.bw?" },
		{ "set sup.bw 5000",
		  "set by uid 0: sup.bw = \"5000\" is out of range (give 0 to "
		  "1024)",
		  "see mpib.conf(5)" },
		{ "set log.level loud",
		  "set by uid 0: log.level = \"loud\" is not one of its "
		  "values (give error, warn, info, debug)",
		  "see mpib.conf(5)" },
		{ "set quota.fds 3",
		  "set by uid 0: quota.fds = 3 is less than the 6 that a "
		  "process with a region needs (raise it, or set 0)",
		  "see mpib.conf(5)" },
		{ "set quota.messages 4611686018427387904",
		  "set by uid 0: quota.messages = \"4611686018427387904\" is "
		  "out of range (give 0 to 1000000000)",
		  "see mpib.conf(5)" },
		{ "drain EAST", "there is no rail \"EAST\"",
		  "rails lists them" },
	};
	const struct mpib_admin admin = { .cfg = &cfg };

	mpib_config_init(&cfg);
	cfg.engine.mode = MPIB_MODE_STATIC;
	for (unsigned i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		const struct mpib_command *c = parse(each[i].line);

		ask.admin = &admin;
		assert_null(c->fn(&ask));
		assert_string_equal(ask.error, each[i].error);
		assert_string_equal(ask.hint, each[i].hint);
		assert_int_equal(cfg.quota[MPIB_QUOTA_FDS], 16384);
	}
}
