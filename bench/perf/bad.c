/* SPDX-License-Identifier: Apache-2.0 */
/* perf_bad() prints one line about a fault to stderr, and keeps it for another
 * host that asked for the test. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "perf/options.h"

static char said[1000];

int perf_bad(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(said, sizeof(said), fmt, ap);
	va_end(ap);
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, said);
	return -EINVAL;
}

const char *perf_bad_said(void)
{
	return said;
}
