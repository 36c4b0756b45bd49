/* SPDX-License-Identifier: Apache-2.0 */
/* main() of the programs that have nothing else to do than to run their tests. */
#include "arg.h"
#include "test.h"

__attribute__((weak)) struct test_group test_group;
__attribute__((weak)) unsigned *test_times;

int main(int argc, char **argv)
{
	size_t n = 0;

	if (argc > 1 && test_times)
		*test_times = arg_count(argv[1]);
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	while (test_list[n].name)
		n++;
	/* What its macro calls, which counts by sizeof. */
	return _cmocka_run_group_tests("tests", test_list, n, test_group.setup,
				       test_group.teardown);
}
