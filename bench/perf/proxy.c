/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file of the proxy's /proc entry. NULL when there is none. */
static FILE *open_entry(const char *run_dir, const char *name)
{
	char path[512], text[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%s/proxy.pid", run_dir);
	f = fopen(path, "re");
	if (!f)
		return NULL;
	if (!fgets(text, sizeof(text), f))
		text[0] = '\0';
	fclose(f);
	snprintf(path, sizeof(path), "/proc/%ld/%s", strtol(text, NULL, 10),
		 name);
	return fopen(path, "re");
}

double perf_proxy_seconds(const char *run_dir)
{
	FILE *f = open_entry(run_dir, "stat");
	unsigned long user, sys;
	char line[1024], *at;
	double cpu = -1;

	if (!f)
		return -1;
	/* Fields 14 and 15, counted after the name, which may have blanks. */
	if (fgets(line, sizeof(line), f) && (at = strrchr(line, ')')) &&
	    sscanf(at + 1,
		   " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu "
		   "%lu",
		   &user, &sys) == 2)
		cpu = (double)(user + sys) / (double)sysconf(_SC_CLK_TCK);
	fclose(f);
	return cpu;
}

double perf_proxy_resident(const char *run_dir)
{
	FILE *f = open_entry(run_dir, "statm");
	unsigned long pages;
	double bytes = -1;

	if (!f)
		return -1;
	if (fscanf(f, "%*u %lu", &pages) == 1)
		bytes = (double)pages * (double)sysconf(_SC_PAGESIZE);
	fclose(f);
	return bytes;
}
