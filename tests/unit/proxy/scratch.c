/* SPDX-License-Identifier: Apache-2.0 */
#include "scratch.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

char scratch[64];

int scratch_make(void **state)
{
	(void)state;
	snprintf(scratch, sizeof(scratch), "/tmp/mpib-test-XXXXXX");
	return mkdtemp(scratch) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

int scratch_remove(void **state)
{
	(void)state;
	return nftw(scratch, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *scratch_path(const char *name)
{
	static char path[160];

	snprintf(path, sizeof(path), "%s/%s", scratch, name);
	return path;
}

void scratch_write(const char *name, const char *text)
{
	FILE *f = fopen(scratch_path(name), "we");

	if (!f || fputs(text, f) < 0 || fclose(f))
		abort();
}
