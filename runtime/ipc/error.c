/* SPDX-License-Identifier: Apache-2.0 */
/* The client library's error text for mpib_strerror(), one per thread. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ipc/client.h"

static __thread char last[320];

int mpib_fail(int rc, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(last, sizeof(last), fmt, ap);
	va_end(ap);
	return rc;
}

const char *mpib_errtext(int rc)
{
	const char *text = strerrordesc_np(-rc);

	return text ? text : "unknown error";
}

const char *mpib_strerror(void)
{
	return last[0] ? last : "no error";
}
