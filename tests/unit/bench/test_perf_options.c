/* SPDX-License-Identifier: Apache-2.0 */
/* bench/perf/options.c and rules.c: the options of mpib-perf. */
#include <errno.h>
#include <stdio.h>

#include "perf/options.h"
#include "perf/values.h"
#include "test.h"

#define WORDS_MAX 16

static enum perf_parse parse_all(struct perf_options *opt, const char *first,
				 const char *words)
{
	static char text[256];
	char *argv[WORDS_MAX];
	int argc = 0;

	snprintf(text, sizeof(text), "mpib-perf|%s|%s", first, words);
	for (char *word = strtok(text, "|"); word; word = strtok(NULL, "|"))
		argv[argc++] = word;
	return perf_options_parse(opt, argc, argv);
}

/* Parse the required options, followed by these words. */
static enum perf_parse parse(struct perf_options *opt, const char *words)
{
	return parse_all(opt, "--plugin|none.so", words);
}

static enum perf_parse parse_check(struct perf_options *opt, const char *words)
{
	return parse_all(opt, "check|a|b|--plugin|none.so", words);
}

TEST(sizes_are_digits_with_at_most_one_suffix)
{
	static const char *const bad[] = { "",	   " ",	  "4 ",	 " 4",	"4\n",
					   "+4",   "-4",  "4KB", "4K ", "K",
					   "0x10", "4.5", "4k4", "4@",	"4`",
					   "4\v",  "1e3", "4 K" };
	static const char *const large[] = { "18446744073709551616",
					     "18014398509481984K",
					     "17179869184G",
					     "99999999999999999999G" };
	uint64_t size = 7;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(perf_parse_size(bad[i], &size), -EINVAL);
	for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++)
		assert_int_equal(perf_parse_size(large[i], &size), -ERANGE);
	assert_int_equal(size, 7);
	assert_int_equal(perf_parse_size("0", &size), 0);
	assert_int_equal(size, 0);
	assert_int_equal(perf_parse_size("3k", &size), 0);
	assert_int_equal(size, 3072);
	assert_int_equal(perf_parse_size("18446744073709551615", &size), 0);
	assert_true(size == UINT64_MAX);
}

TEST(a_bad_value_is_refused)
{
	static const char *const bad[] = {
		"--max|4 ",
		"--max|16E",
		"--max|2048G",
		"--iters|-1",
		"--iters|4294967296",
		"--warmup|1 ",
		"--channels|0",
		"--channels|4294967297",
		"--inflight| 1",
		"--seed|18446744073709551616",
		"--steady|1 s",
		"--steady| 1s",
		"--steady|0x10s",
		"--steady|nans",
		"--steady|infs",
		"--steady|-1s",
		"--timeout|1e9",
		"--timeout|5x",
		"--check|2",
		"--check|1 ",
		"--env|4294967296:A=b",
		"--env|0 :A=b",
		"--env|:A=b",
		"--env|=b",
		"--json|/nowhere/at/all.json",
		"--json|/",
	};
	struct perf_options opt;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (parse(&opt, bad[i]) != PERF_PARSE_BAD)
			fail_msg("%s is taken", bad[i]);
	}
}

TEST(a_given_maximum_replaces_the_default_one)
{
	struct perf_options opt;

	assert_int_equal(parse(&opt, "--random-sizes|9"), PERF_PARSE_RUN);
	assert_int_equal(opt.max, 1 << 20);
	perf_options_free(&opt);
	assert_int_equal(parse(&opt, "--random-sizes|9|--max|64M"),
			 PERF_PARSE_RUN);
	assert_int_equal(opt.max, 64 << 20);
	perf_options_free(&opt);
	assert_int_equal(parse(&opt, "--max|64M|--random-sizes|9"),
			 PERF_PARSE_RUN);
	assert_int_equal(opt.max, 64 << 20);
	perf_options_free(&opt);
	assert_int_equal(parse(&opt, "--iters|3"), PERF_PARSE_RUN);
	assert_int_equal(opt.max, 64 << 20);
	perf_options_free(&opt);
}

TEST(check_refuses_options_that_it_cannot_check)
{
	static const char *const bad[] = { "--check|0", "-c|0", "--group|2",
					   "--early-completion",
					   "--random-sizes|9" };
	struct perf_options opt;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (parse_check(&opt, bad[i]) != PERF_PARSE_BAD)
			fail_msg("%s is taken", bad[i]);
	}
	assert_int_equal(parse_check(&opt, "-c|1|--group|1"), PERF_PARSE_RUN);
	perf_options_free(&opt);
}

TEST(a_given_value_replaces_the_default)
{
	struct perf_options opt;

	assert_int_equal(parse_check(&opt, ""), PERF_PARSE_RUN);
	assert_int_equal(opt.channels, 4);
	perf_options_free(&opt);
	assert_int_equal(parse_check(&opt, "--channels|1"), PERF_PARSE_RUN);
	assert_int_equal(opt.channels, 1);
	perf_options_free(&opt);
	setenv("RANK", "0", 1);
	setenv("WORLD_SIZE", "2", 1);
	assert_int_equal(parse(&opt, "--port|18600"), PERF_PARSE_RUN);
	assert_int_equal(opt.role, PERF_LAUNCHED);
	assert_int_equal(opt.port, 18600);
	perf_options_free(&opt);
	assert_int_equal(parse(&opt, ""), PERF_PARSE_RUN);
	assert_in_range(opt.port, 20000, 29999);
	perf_options_free(&opt);
	unsetenv("RANK");
	unsetenv("WORLD_SIZE");
	assert_int_equal(parse(&opt, ""), PERF_PARSE_RUN);
	assert_int_equal(opt.port, PERF_PORT);
	perf_options_free(&opt);
}

TEST(times_are_given_in_seconds)
{
	struct perf_options opt;

	assert_int_equal(parse(&opt, "--steady|0.5s|--timeout|2"),
			 PERF_PARSE_RUN);
	assert_true(opt.steady_seconds > 0.4 && opt.steady_seconds < 0.6);
	assert_int_equal(opt.steady_count, 0);
	assert_true(opt.timeout > 1.9 && opt.timeout < 2.1);
	perf_options_free(&opt);
	assert_int_equal(parse(&opt, "--steady|5"), PERF_PARSE_RUN);
	assert_int_equal(opt.steady_count, 5);
	perf_options_free(&opt);
}

TEST(an_environment_variable_is_for_one_node_or_for_all)
{
	struct perf_options opt;

	assert_int_equal(parse(&opt, "--env|0:A=b=c|--env|D="), PERF_PARSE_RUN);
	assert_int_equal(opt.nenv, 2);
	assert_int_equal(opt.env[0].node, 0);
	assert_string_equal(opt.env[0].name, "A");
	assert_string_equal(opt.env[0].value, "b=c");
	assert_int_equal(opt.env[1].node, -1);
	assert_string_equal(opt.env[1].value, "");
	perf_options_free(&opt);
}
