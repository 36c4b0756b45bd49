/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the file of --json. */
#include "perf/save.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "perf/options.h"

bool perf_save_json(const char *path, const json_t *all)
{
	bool own = strcmp(path, "-") != 0, ok;
	FILE *f = own ? fopen(path, "we") : stdout;

	ok = f &&
	     json_dumpf(all, f, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0 &&
	     fputc('\n', f) != EOF;
	/* A full disk may be reported only by fclose(). */
	if (f && own)
		ok = fclose(f) == 0 && ok;
	if (!ok)
		perf_bad(
			"--json %s: it cannot be written: %s (give a file in a folder that has room and that you may write to)",
			path, strerror(errno));
	return ok;
}
