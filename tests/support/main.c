/* SPDX-License-Identifier: Apache-2.0 */
/* The main() of programs that only run tests. */
#include "arg.h"
#include "test.h"

#define TESTS_MAX 64

__attribute__((weak)) struct test_group test_group;
__attribute__((weak)) unsigned *test_times;

static struct CMUnitTest tests[TESTS_MAX];
static unsigned lines[TESTS_MAX];
static size_t tests_n;

void test_add(struct CMUnitTest test, unsigned line)
{
	size_t at = tests_n++;

	if (at == TESTS_MAX)
		abort();
	/* Sort by line, because a compiler may call the constructors of a file
	 * in any order. */
	for (; at && lines[at - 1] > line; at--) {
		tests[at] = tests[at - 1];
		lines[at] = lines[at - 1];
	}
	tests[at] = test;
	lines[at] = line;
}

int main(int argc, char **argv)
{
	if (argc > 1 && test_times)
		*test_times = arg_count(argv[1]);
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	/* Do not use cmocka's macro, which computes the number of tests with
	 * sizeof, but the function that it calls. */
	return _cmocka_run_group_tests("tests", tests, tests_n,
				       test_group.setup, test_group.teardown);
}
