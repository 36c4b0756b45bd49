/* SPDX-License-Identifier: Apache-2.0 */
/* Networks of tests, claimed by one process: its number says nothing. */
#include <stdio.h>

#include "addr.h"
#include "test.h"

static void each_claim_has_a_network_of_its_own(void **state)
{
	FILE *f = popen("exec bash -c 'cd \"" SUPPORT "\" && . ./addr.sh &&"
			" echo ${net%.*} && net_claim && echo ${net%.*} &&"
			" exec \"" SELF "\" claim'",
			"r");
	char net[3][32];

	assert_non_null(f);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(fscanf(f, " 127.%31s", net[i]), 1);
	assert_int_equal(pclose(f), 0);
	assert_string_not_equal(net[0], net[1]);
	assert_string_not_equal(net[0], net[2]);
	assert_string_not_equal(net[1], net[2]);
}

static void a_program_keeps_its_network(void **state)
{
	assert_int_equal(test_addr(7), test_addr(0) + 7);
	assert_int_equal(test_addr(0) >> 24, 127);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_claim_has_a_network_of_its_own),
		cmocka_unit_test(a_program_keeps_its_network),
	};

	if (argc > 1 && !strcmp(argv[1], "claim"))
		return printf("127.%u\n", test_addr(0) >> 16 & 255) < 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
