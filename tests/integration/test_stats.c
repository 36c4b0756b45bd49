/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test the stats sockets of two real proxies: the line protocol, the readers,
 * and their permissions.
 */
#include <mpib/client.h>
#include <mpib/control.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ask.h"
#include "ends.h"
#include "test.h"

TEST(the_greeting_has_version_and_pid)
{
	FILE *f = ask_reader(&ask_a);
	json_t *v = ask_next(f);

	assert_true(*ask_text(v, "mpib"));
	assert_int_equal(json_integer_value(json_object_get(v, "proto")), 1);
	assert_int_equal(json_integer_value(json_object_get(v, "pid")),
			 ask_a.pid);
	json_decref(v);
	fclose(f);
}

/* Return the number of digits of the longest number in the line. Leading zeros
 * and the decimal point do not count. */
static unsigned longest_number(const char *line)
{
	unsigned longest = 0, digits = 0;

	for (; *line; line++) {
		if (*line >= '0' && *line <= '9')
			digits += digits || *line != '0';
		else if (*line != '.')
			digits = 0;
		if (digits > longest)
			longest = digits;
	}
	return longest;
}

/* The proxy must print 8.3, for example, not 8.3000000000000007, because only
 * the first 15 digits of a double are significant. */
TEST(numbers_have_only_significant_digits)
{
	FILE *f = ask_reader(&ask_a);
	char *line = NULL;
	size_t room = 0;

	dprintf(fileno(f), "info\nrails\nshards\nmonitor\n");
	shutdown(fileno(f), SHUT_WR);
	while (getline(&line, &room, f) > 0) {
		if (longest_number(line) > 15)
			fail_msg("more than 15 digits: %s", line);
	}
	free(line);
	fclose(f);
}

TEST(pipelined_commands_are_answered_in_order)
{
	FILE *f = ask_reader(&ask_a);
	json_t *v;

	dprintf(fileno(f), "rails\r\n\n  config \nconns\n");
	shutdown(fileno(f), SHUT_WR);
	ask_pass(f);
	v = ask_next(f);
	assert_int_equal(json_array_size(json_object_get(v, "data")), 2);
	json_decref(v);
	v = ask_next(f);
	assert_true(json_array_size(json_object_get(v, "data")) >= 6);
	json_decref(v);
	v = ask_next(f);
	assert_non_null(json_object_get(json_object_get(v, "data"), "closed"));
	json_decref(v);
	assert_null(ask_next(f));
	fclose(f);
}

TEST(an_unknown_command_gets_a_hint)
{
	FILE *f = ask_reader(&ask_a);
	json_t *v;

	ask_pass(f);
	dprintf(fileno(f), "cleints\n\xff\xfe\n");
	v = ask_next(f);
	assert_true(json_is_false(json_object_get(v, "ok")));
	assert_string_equal(ask_text(v, "hint"), "did you mean clients?");
	json_decref(v);
	v = ask_next(f);
	assert_true(json_is_false(json_object_get(v, "ok")));
	json_decref(v);
	fclose(f);
}

TEST(an_endless_line_closes_the_connection)
{
	char junk[5000];
	FILE *f = ask_reader(&ask_a);

	memset(junk, 'x', sizeof(junk));
	ask_pass(f);
	assert_true(send(fileno(f), junk, sizeof(junk), MSG_NOSIGNAL) > 0);
	assert_null(ask_next(f));
	fclose(f);
}

/* Connect again and again until the proxy accepts a reader. A reader that has
 * hung up still counts until the proxy notices. */
static void wait_for_place(FILE *(*dial)(const struct node *node),
			   const struct node *node)
{
	for (bool served = false; !served;) {
		FILE *f = dial(node);
		json_t *v = ask_next(f);

		served = *ask_text(v, "mpib");
		json_decref(v);
		fclose(f);
	}
}

TEST(the_number_of_readers_is_limited)
{
	FILE *f[4];
	json_t *v;

	for (unsigned i = 0; i < 4; i++) {
		f[i] = ask_reader(&ask_a);
		v = ask_next(f[i]);
		if (i < 3)
			assert_true(*ask_text(v, "mpib"));
		else
			assert_string_equal(ask_text(v, "error"),
					    "this user has too many "
					    "readers");
		json_decref(v);
	}
	for (unsigned i = 0; i < 4; i++)
		fclose(f[i]);
	wait_for_place(ask_reader, &ask_a);
}

/* limit.readers does not apply to administrators. */
TEST(the_number_of_administrators_is_limited)
{
	FILE *f[65];
	json_t *v;

	for (unsigned i = 0; i < 65; i++) {
		f[i] = ask_admin(&ask_b);
		v = ask_next(f[i]);
		if (i < 64)
			assert_true(*ask_text(v, "mpib"));
		else
			assert_string_equal(ask_text(v, "error"),
					    "too many administrators");
		json_decref(v);
	}
	for (unsigned i = 0; i < 65; i++)
		fclose(f[i]);
	wait_for_place(ask_admin, &ask_b);
}

TEST(a_reader_that_leaves_early_affects_no_other)
{
	for (unsigned i = 0; i < 50; i++) {
		FILE *f = ask_reader(&ask_b);

		dprintf(fileno(f), "info\nrails\nclients\nconns\nlanes\n");
		fclose(f);
	}
	json_decref(node_ask(&ask_b, "info"));
}

TEST(events_are_reported_once)
{
	FILE *f = ask_admin(&ask_a);
	json_int_t last;
	char line[64];
	json_t *v;

	ask_pass(f);
	v = ask_data(f, "events");
	last = ask_num(v, "last");
	assert_int_equal(ask_num(v, "lost"), 0);
	assert_string_equal(
		ask_text(json_array_get(json_object_get(v, "events"), 0),
			 "kind"),
		"start");
	json_decref(v);
	json_decref(ask_data(f, "set log.level debug"));
	snprintf(line, sizeof(line), "events %lld", (long long)last);
	v = ask_data(f, line);
	assert_int_equal(ask_num(v, "last"), last + 1);
	assert_string_equal(
		ask_text(json_array_get(json_object_get(v, "events"), 0),
			 "kind"),
		"set");
	json_decref(v);
	json_decref(ask_data(f, "set log.level info"));
	fclose(f);
}

TEST(a_drain_is_reported_and_the_last_rail_cannot_be_drained)
{
	FILE *f = ask_admin(&ask_a);
	json_t *v;

	ask_pass(f);
	json_decref(ask_data(f, "drain sup"));
	v = ask_data(f, "rails");
	assert_true(
		json_is_true(json_object_get(json_array_get(v, 1), "drained")));
	json_decref(v);
	dprintf(fileno(f), "drain SOUT\n");
	v = ask_next(f);
	assert_string_equal(ask_text(v, "error"),
			    "SOUT is the only rail in use");
	json_decref(v);
	json_decref(ask_data(f, "resume SUP"));
	fclose(f);
}

TEST(a_kicked_client_is_disconnected)
{
	struct mpib_node_info info;
	struct mpib_client *client = ends_attach(&ask_a, "kicked");
	FILE *f = ask_admin(&ask_a);
	char line[32];

	ask_pass(f);
	mpib_query(client, &info);
	snprintf(line, sizeof(line), "kick %u", info.client);
	json_decref(ask_data(f, line));
	node_until_usage(&ask_a, "attached", 0);
	/* wait until the client's socket is closed */
	while (mpib_alive(client) >= 0)
		usleep(1000);
	mpib_detach(client);
	fclose(f);
}

struct test_group test_group = { ask_start, ask_stop };
