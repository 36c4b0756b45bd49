/* SPDX-License-Identifier: Apache-2.0 */
/* The status that mpib-agent writes, and who reads it. */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/status.h"
#include "steered.h"
#include "test.h"

static void put(const char *at, const char *text)
{
	FILE *out = fopen(at, "w");

	assert_non_null(out);
	fputs(text, out);
	fclose(out);
}

/* Words of a file in another encoding, and of one that is cut in a character. */
static void a_status_is_written_whatever_the_words_are(void **state)
{
	static const char *const word[] = {
		"caf\xe9",
		"123456789012345678901234567890123456789012345678\xc3\xa9",
		"12345678901234567890123456789012345678901234567\xc3\xa9"
	};
	struct mpib_agent_slot *s = steered_conn(0, "10.1.0.1");
	char path[96];
	json_t *data;

	snprintf(path, sizeof(path), "%s/conf", dir);
	for (unsigned i = 0; i < sizeof(word) / sizeof(word[0]); i++) {
		put(path, word[i]);
		assert_false(mpib_agent_reload(&policy, path, policy.fault));
		assert_int_equal(mpib_agent_status_write(&policy), 0);
		assert_int_equal(mpib_agent_file_read(agent.dir, "nobody",
						      &data, why, sizeof(why)),
				 0);
		assert_non_null(strstr(
			json_string_value(json_object_get(data, "fault")),
			"unknown word \""));
		json_decref(data);
	}
	snprintf(s->choice.why, sizeof(s->choice.why), "SUP left: \xff/1");
	snprintf(policy.ports.sick[1].why, MPIB_AGENT_REASON, "a\tb\x7f/1");
	policy.ports.sick[1].since = 1;
	agent.sharing = 3;
	agent.refused = 2;
	assert_int_equal(mpib_agent_status_write(&policy), 0);
	assert_int_equal(mpib_agent_file_read(agent.dir, "nobody", &data, why,
					      sizeof(why)),
			 0);
	assert_string_equal(
		json_string_value(json_object_get(
			json_array_get(json_object_get(data, "steered"), 0),
			"why")),
		"SUP left: ?/1");
	assert_string_equal(
		json_string_value(json_object_get(
			json_array_get(json_object_get(data, "rails"), 1),
			"why")),
		"a?b?/1");
	assert_int_equal(json_integer_value(json_object_get(data, "sharing")),
			 3);
	assert_int_equal(json_integer_value(json_object_get(data, "refused")),
			 2);
	json_decref(data);
	unlink(path);
	mpib_agent_status_remove(&agent);
}

/* A status that is complete, but for when it was told. */
static void put_told(const char *at, json_int_t told)
{
	char text[64];

	snprintf(text, sizeof(text), "{\"told\": %" JSON_INTEGER_FORMAT "}",
		 told);
	put(at, text);
}

static int read_it(const char *user)
{
	json_t *data;
	int rc = mpib_agent_file_read(dir, user, &data, why, sizeof(why));

	assert_true(!data == (rc < 0));
	json_decref(data);
	return rc;
}

static void only_an_agents_own_status_is_read(void **state)
{
	const struct passwd *pw = getpwnam("nobody");
	json_int_t now = time(NULL);
	char path[96];

	snprintf(path, sizeof(path), "%s/" MPIB_AGENT_STATUS, dir);
	put_told(path, now);
	assert_int_equal(read_it("nobody"), 0);
	put_told(path, now + 100);
	assert_int_equal(read_it("nobody"), -ESTALE);
	assert_non_null(strstr(why, "a time to come"));
	put_told(path, now - 100);
	assert_int_equal(read_it("nobody"), -ESTALE);
	put_told(path, INT64_MIN);
	assert_int_equal(read_it("nobody"), -ESTALE);
	put_told(path, now);
	assert_int_equal(truncate(path, (1 << 20) + 1), 0);
	assert_int_equal(read_it("nobody"), -EPROTO);
	assert_non_null(strstr(why, "at most 1 MiB"));
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(read_it("nobody"), -EPROTO);
	assert_non_null(strstr(why, "at most 1 MiB"));
	unlink(path);
	if (geteuid() != 0 || !pw)
		skip_as("only root can give a file away");
	put_told(path, now);
	assert_int_equal(chown(path, 61001, 0), 0);
	assert_int_equal(read_it("nobody"), -EPERM);
	assert_non_null(strstr(why, "it belongs to user 61001"));
	assert_int_equal(chown(path, pw->pw_uid, 0), 0);
	assert_int_equal(read_it("nobody"), 0);
	assert_int_equal(read_it("root"), -EPERM);
	unlink(path);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test_setup_teardown(
		a_status_is_written_whatever_the_words_are, steered_begin,
		steered_end),
	cmocka_unit_test_setup_teardown(only_an_agents_own_status_is_read,
					steered_begin, steered_end),
	{ 0 },
};
