/* SPDX-License-Identifier: Apache-2.0 */
/* Adding a finding, and reading a line of sysfs: used by all checks. */
#include <stdarg.h>
#include <string.h>

#include "doctor/doctor.h"

void mpib_find(struct mpib_doctor *d, enum mpib_verdict verdict,
	       const char *check, const char *fix, const char *fmt, ...)
{
	static const char *const name[] = { "OK", "WARN", "FAIL" };
	char what[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	d->count[verdict]++;
	json_array_append_new(d->findings,
			      json_pack("{ss ss ss ss*}", "status",
					name[verdict], "check", check, "what",
					what, "fix", fix));
}

bool mpib_read_line(char *buf, size_t len, const char *fmt, ...)
{
	char path[512];
	va_list ap;
	FILE *f;
	bool ok;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	f = fopen(path, "re");
	ok = f && fgets(buf, (int)len, f);
	if (f)
		fclose(f);
	if (ok)
		buf[strcspn(buf, "\n")] = '\0';
	return ok;
}
