/* SPDX-License-Identifier: Apache-2.0 */
/* base/log.h: each line is valid JSON, no matter what the text contains.
 * Repetitions of a line are limited. */
#include "base/log.h"

#include <errno.h>
#include <jansson.h>
#include <time.h>

#include "base/event.h"
#include "test.h"

static char last[4096];
static unsigned lines;
static uint64_t now_ns = 1000000000;

WRAPS(int, clock_gettime, clockid_t clock, struct timespec *ts)
{
	if (clock != CLOCK_MONOTONIC)
		return __real_clock_gettime(clock, ts);
	ts->tv_sec = (time_t)(now_ns / 1000000000);
	ts->tv_nsec = (long)(now_ns % 1000000000);
	return 0;
}

static void keep(enum mpib_log_level level, const char *line)
{
	snprintf(last, sizeof(last), "%s", line);
	lines++;
}

static const char *field(const char *key)
{
	static json_t *line;

	json_decref(line);
	line = json_loads(last, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(line))
		fail_msg("no JSON: %s", last);
	return json_string_value(json_object_get(line, key));
}

TEST(text_lines_are_logged_unchanged)
{
	mpib_log_set_json(false);
	mpib_info("as \"it\" is");
	assert_string_equal(last, "as \"it\" is");
}

TEST(a_line_is_a_json_object)
{
	struct tm tm = { 0 };
	const char *rest;

	mpib_log_set_json(true);
	errno = ENOENT;
	mpib_warn("quote \" slash \\ tab \t end: %m");
	assert_int_equal(errno, ENOENT);
	assert_string_equal(
		field("text"),
		"quote \" slash \\ tab \t end: No such file or directory");
	assert_string_equal(field("level"), "warn");
	assert_null(field("kind"));
	rest = strptime(field("time"), "%Y-%m-%dT%H:%M:%S", &tm);
	assert_non_null(rest);
	assert_int_equal(strspn(rest, ".0123456789"), 7);
	assert_string_equal(rest + 7, "Z");
	assert_true(llabs((long long)(timegm(&tm) - time(NULL))) < 86400);
}

TEST(the_line_of_an_event_has_its_kind)
{
	mpib_log_set_json(true);
	mpib_event(MPIB_LOG_ERROR, "rail_down", NULL, "rail %s", "SUP");
	assert_string_equal(field("kind"), "rail_down");
	assert_string_equal(field("level"), "error");
	assert_string_equal(field("text"), "rail SUP");
}

/* Try all values of the first three bytes of a text. */
TEST(bytes_that_are_not_utf8_are_replaced)
{
	char text[8] = "";

	mpib_log_set_json(true);
	mpib_info("%s", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
	assert_string_equal(field("text"),
			    "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
	mpib_info("%s", "a\xff\xc0\x80z\xed\xa0\x80");
	assert_string_equal(field("text"), "a???z???");
	for (unsigned a = 1; a < 256; a++) {
		for (unsigned b = 0x70; b < 0x100; b++) {
			text[0] = (char)a;
			text[1] = (char)b;
			text[2] = (char)(0x80 | (a & 0x3f));
			now_ns += 1000000000;
			mpib_info("%s", text);
			assert_non_null(field("text"));
		}
	}
}

TEST(a_long_text_is_truncated_and_still_a_json_object)
{
	char text[4096];

	mpib_log_set_json(true);
	memset(text, '\1', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	mpib_info("%s", text);
	assert_true(strlen(field("text")) > 100);
	memset(text, 'x', sizeof(text) - 1);
	mpib_info("%s", text);
	assert_int_equal(strlen(field("text")), 1023);
}

static void flood(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		mpib_warn("peer %u misbehaves", i);
}

/* A peer that causes a warning with each message must not fill the disk. */
TEST(repetitions_of_a_warning_are_limited)
{
	mpib_log_set_json(false);
	now_ns += 1000000000000;
	lines = 0;
	flood(1000000);
	assert_int_equal(lines, 200);
	assert_string_equal(last, "peer 199 misbehaves");
	mpib_warn("another warning");
	assert_string_equal(last, "another warning");
	assert_int_equal(lines, 201);

	/* A second later, ten more lines are logged, and a line with the number
	 * of dropped lines. */
	now_ns += 1000000000;
	flood(1000);
	assert_int_equal(lines, 201 + 1 + 10);
	now_ns += 1000000000000;
	flood(1);
	assert_int_equal(lines, 212 + 2);
	assert_string_equal(last, "peer 0 misbehaves");
}

static int begin(void **state)
{
	mpib_log_set_sink(keep);
	return 0;
}

struct test_group test_group = { begin, NULL };
