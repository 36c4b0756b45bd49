/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/agent/words.h: files that have no words. */
#include "agent/words.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scratch.h"
#include "test.h"

static char why[MPIB_AGENT_WHY];

static bool take(void *ctx, char **words, unsigned count, unsigned line,
		 char *reason)
{
	(void)words;
	(void)line;
	(void)reason;
	*(unsigned *)ctx += count;
	return true;
}

/* Nobody writes into it, so that who opens one to read waits for ever. */
static void a_pipe_in_its_place_is_refused_at_once(void **state)
{
	unsigned words = 0;

	assert_int_equal(mkfifo(scratch_path("conf"), 0600), 0);
	alarm(20);
	assert_false(
		mpib_agent_words_read(scratch_path("conf"), take, &words, why));
	alarm(0);
	assert_in(why, "conf: it is no regular file (");
}

static void a_line_without_end_takes_no_memory(void **state)
{
	struct rusage before, after;
	unsigned words = 0;

	scratch_write("conf", "# a line\ntwo words\n");
	assert_int_equal(truncate(scratch_path("conf"), 256 << 20), 0);
	assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
	assert_false(
		mpib_agent_words_read(scratch_path("conf"), take, &words, why));
	assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
	assert_in(why, "conf:3: the line is too long (give at most 500 bytes)");
	assert_int_equal(words, 2);
	assert_in_range(after.ru_maxrss - before.ru_maxrss, 0, 8 << 10);
}

#define SCRATCH_TEST(f)                                                        \
	cmocka_unit_test_setup_teardown(f, scratch_make, scratch_remove)

const struct CMUnitTest test_list[] = {
	SCRATCH_TEST(a_pipe_in_its_place_is_refused_at_once),
	SCRATCH_TEST(a_line_without_end_takes_no_memory),
	{ 0 },
};
