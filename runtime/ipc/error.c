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
	/* The GNU version, which returns a text that lives on or fills buf. */
	static _Thread_local char buf[64];

	return strerror_r(-rc, buf, sizeof(buf));
}

const char *mpib_strerror(void)
{
	return last[0] ? last : "no error";
}
