/* SPDX-License-Identifier: Apache-2.0 */
/* CPU time of a proxy. */
#include "perf/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The proxy's pid, or 0 when there is none. */
static long pid_of(const char *run_dir)
{
	char path[512], text[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%s/proxy.pid", run_dir);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (!fgets(text, sizeof(text), f))
		text[0] = '\0';
	fclose(f);
	return strtol(text, NULL, 10);
}

double perf_proxy_seconds(const char *run_dir)
{
	long pid = pid_of(run_dir);
	struct timespec ts;
	clockid_t clock;

	if (pid <= 0 || clock_getcpuclockid((pid_t)pid, &clock) != 0 ||
	    clock_gettime(clock, &ts) < 0)
		return -1;
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}
