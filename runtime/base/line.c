/* SPDX-License-Identifier: Apache-2.0 */
#include "base/line.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool mpib_read_line(char *buf, size_t len, const char *fmt, ...)
{
	char path[512];
	va_list ap;
	FILE *f;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	f = fopen(path, "re");
	if (!f || !fgets(buf, (int)len, f))
		buf[0] = '\0';
	if (f)
		fclose(f);
	buf[strcspn(buf, "\n")] = '\0';
	return buf[0];
}
