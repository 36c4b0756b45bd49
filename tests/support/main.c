/* SPDX-License-Identifier: Apache-2.0 */
/* main() of the programs that have nothing else to do than to run their tests. */
#include "test.h"

int main(void)
{
	size_t n = 0;

	while (test_list[n].name)
		n++;
	/* What its macro calls, which counts by sizeof. */
	return _cmocka_run_group_tests("tests", test_list, n, NULL, NULL);
}
