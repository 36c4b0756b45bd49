/* SPDX-License-Identifier: Apache-2.0 */
/* The status that mpib-agent writes, and who reads it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/status.h"
#include "steered.h"

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

	(void)state;
	snprintf(path, sizeof(path), "%s/conf", dir);
	for (unsigned i = 0; i < sizeof(word) / sizeof(word[0]); i++) {
		put(path, word[i]);
		assert_false(mpib_agent_reload(&policy, path, policy.fault));
		assert_int_equal(mpib_agent_status_write(&policy), 0);
		assert_int_equal(mpib_agent_file_read(agent.dir, &data, why,
						      sizeof(why)),
				 0);
		assert_non_null(strstr(
			json_string_value(json_object_get(data, "fault")),
			"unknown word \""));
		json_decref(data);
	}
	snprintf(s->choice.why, sizeof(s->choice.why), "SUP left: \xff/1");
	snprintf(policy.ports.sick[1].why, MPIB_AGENT_REASON, "a\tb\x7f/1");
	policy.ports.sick[1].since = 1;
	assert_int_equal(mpib_agent_status_write(&policy), 0);
	assert_int_equal(
		mpib_agent_file_read(agent.dir, &data, why, sizeof(why)), 0);
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
	json_decref(data);
	unlink(path);
	mpib_agent_status_remove(&agent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_status_is_written_whatever_the_words_are,
			steered_begin, steered_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
