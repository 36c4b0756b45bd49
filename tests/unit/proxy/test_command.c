/* SPDX-License-Identifier: Apache-2.0 */
/* stats/command.h: what a line of the stats socket asks for, who may give it,
 * and what is wrong with one that asks for nothing. */
#include <unistd.h>

#include "stats/command.h"
#include "test.h"

static char line[128];
static struct mpib_ask ask;
static struct mpib_config cfg;

static const struct mpib_command *parse(const char *text, uid_t uid)
{
	snprintf(line, sizeof(line), "%s", text);
	ask = (struct mpib_ask){ .uid = uid };
	return mpib_command_parse(line, &ask);
}

static const struct mpib_command *parse_by_admin(const char *text)
{
	snprintf(line, sizeof(line), "%s", text);
	ask = (struct mpib_ask){ .by_admin_sock = true };
	return mpib_command_parse(line, &ask);
}

TEST(words_are_taken_apart)
{
	const struct mpib_command *c = parse_by_admin(" set  sup.bw\t100 \r");

	assert_non_null(c);
	assert_string_equal(c->name, "set");
	assert_int_equal(ask.argc, 2);
	assert_string_equal(ask.argv[0], "sup.bw");
	assert_string_equal(ask.argv[1], "100");
}

TEST(a_command_tells_what_it_takes)
{
	assert_null(parse("set sup.bw", 0));
	assert_string_equal(ask.error, "set takes KEY VALUE, not so few words");
	assert_null(parse("kick 1 2 3 4 5", 0));
	assert_string_equal(ask.error, "kick takes CLIENT, not so many words");
	assert_null(parse("rails all", 0));
	assert_string_equal(ask.error,
			    "rails takes no argument, not so many words");
}

TEST(only_the_admin_socket_changes_anything)
{
	assert_non_null(parse_by_admin("drain SUP"));
	assert_non_null(parse_by_admin("rails"));
	assert_null(parse("drain SUP", 0));
	assert_null(parse("drain SUP", geteuid()));
	assert_null(parse("drain SUP", geteuid() + 1));
	assert_non_null(strstr(ask.error, "may not change anything"));
	assert_null(parse("set log.level debug", (uid_t)-1));
	assert_non_null(parse("rails", geteuid() + 1));
}

TEST(an_unknown_command_has_a_hint)
{
	assert_null(parse("histry", 0));
	assert_string_equal(ask.hint, "did you mean history?");
	assert_null(parse("xyzzy", 0));
	assert_string_equal(ask.hint, "help lists the commands");
}

TEST(a_number_is_digits_and_in_its_range)
{
	static const char *const bad[] = { "events -1", "events x", "events 1x",
					   "events +1",
					   "events 99999999999999999999" };
	uint64_t n;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_non_null(parse(bad[i], 0));
		assert_false(mpib_ask_number(&ask, 0, 7, INT64_MAX, &n));
		assert_true(ask.error[0]);
	}
	assert_non_null(parse("events 12", 0));
	assert_true(mpib_ask_number(&ask, 0, 7, 12, &n));
	assert_int_equal(n, 12);
	assert_false(mpib_ask_number(&ask, 0, 7, 11, &n));
	assert_non_null(parse("events", 0));
	assert_true(mpib_ask_number(&ask, 0, 7, 12, &n));
	assert_int_equal(n, 7);
}

TEST(a_connection_is_two_numbers_that_fit)
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

TEST(a_share_counts_in_static_mode_only)
{
	const struct mpib_admin admin = { .cfg = &cfg };
	const struct mpib_command *c = parse_by_admin("set sup.bw 1");

	mpib_config_init(&cfg);
	cfg.engine.mode = MPIB_MODE_ADAPTIVE;
	ask.admin = &admin;
	assert_null(c->fn(&ask));
	assert_string_equal(ask.error, "sup.bw counts in static mode only");
}

TEST(what_cannot_be_set_says_why)
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
		{ "set quota.requests 5",
		  "set by uid 0: quota.requests = 5 is less than the 32 that a "
		  "connection takes of it (raise it, or 0)",
		  "see mpib.conf(5)" },
		{ "set quota.fds 3",
		  "set by uid 0: quota.fds = 3 is less than the 6 that a "
		  "process with a region takes of it (raise it, or 0)",
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
		const struct mpib_command *c = parse_by_admin(each[i].line);

		ask.admin = &admin;
		assert_null(c->fn(&ask));
		assert_string_equal(ask.error, each[i].error);
		assert_string_equal(ask.hint, each[i].hint);
		assert_int_equal(cfg.quota[MPIB_QUOTA_FDS], 16384);
	}
}
