/* SPDX-License-Identifier: Apache-2.0 */
#include "scratch.h"

#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>

#include "test.h"

char scratch[64];

int scratch_make(void **state)
{
	snprintf(scratch, sizeof(scratch), "/tmp/mpib-test-XXXXXX");
	return mkdtemp(scratch) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	return remove(path);
}

int scratch_remove(void **state)
{
	return nftw(scratch, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *scratch_path(const char *name)
{
	static char path[320];

	snprintf(path, sizeof(path), "%s/%s", scratch, name);
	return path;
}

void scratch_dir(const char *name)
{
	char path[320];

	snprintf(path, sizeof(path), "%s/%s/", scratch, name);
	for (char *c = path + strlen(scratch) + 1; (c = strchr(c, '/')); c++) {
		*c = '\0';
		mkdir(path, 0700);
		*c = '/';
	}
}

void scratch_write(const char *name, const char *text)
{
	const char *last = strrchr(name, '/');
	char dir[256];
	FILE *f;

	if (last) {
		snprintf(dir, sizeof(dir), "%.*s", (int)(last - name), name);
		scratch_dir(dir);
	}
	f = fopen(scratch_path(name), "we");
	if (!f || fputs(text, f) < 0 || fclose(f))
		abort();
}
