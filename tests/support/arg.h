/* SPDX-License-Identifier: Apache-2.0 */
/* Parse the numbers on the command lines of test programs. */
#ifndef TESTS_ARG_H
#define TESTS_ARG_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parse a decimal number of at most `max`. For any other text, such as "1O0",
 * end the program with status 2. Otherwise the test would run 0 times and
 * pass. */
static inline uint64_t arg_number(const char *text, uint64_t max)
{
	uint64_t n;

	errno = 0;
	n = strtoull(text, NULL, 10);
	if (*text && !text[strspn(text, "0123456789")] && !errno && n <= max)
		return n;
	fprintf(stderr,
		"%s: command line: \"%s\" is not 0..%llu (give digits)\n",
		program_invocation_short_name, text, (unsigned long long)max);
	exit(2);
}

static inline unsigned arg_count(const char *text)
{
	return (unsigned)arg_number(text, UINT32_MAX);
}

#endif
