/* SPDX-License-Identifier: Apache-2.0 */
/* Formatting the reason for a failure. */
#include "why.h"

#include <stdarg.h>
#include <stdio.h>

#include "config/config.h"

int mpib_why_fail(char *why, int rc, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, MPIB_WHY_MAX, fmt, ap);
	va_end(ap);
	return rc;
}
