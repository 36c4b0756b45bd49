/* SPDX-License-Identifier: Apache-2.0 */
/* perf_bad() prints one line about a wrong option to stderr. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "perf/options.h"

int perf_bad(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return -EINVAL;
}
