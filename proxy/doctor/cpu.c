/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of the proxy's share of CPU. A proxy that gets no core for long is late with
 * all that it does: nothing fails by that, but bandwidth is bound by the share.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/line.h"
#include "doctor/doctor.h"

static const char quota_fix[] =
	"set no CPUQuota= for mpib-proxy.service and no limits.cpu for its pod; "
	"reserve cores by CPUWeight= and requests.cpu";

struct cpu_found {
	double quota; /* cores; 0: no quota */
	uint64_t throttled, throttled_us; /* periods, and time in them */
};

/* The number behind name in a cpu.stat; 0: it is not there. */
static uint64_t stat_of(const char *path, const char *name)
{
	char line[128];
	size_t len = strlen(name);
	uint64_t n = 0;
	FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, name, len) && line[len] == ' ')
			n = strtoull(line + len, NULL, 10);
	}
	if (f)
		fclose(f);
	return n;
}

/* "QUOTA PERIOD" in us, or "max PERIOD". */
static double cores_of(const char *dir)
{
	char line[64], *rest;
	double quota, period;

	if (mpib_read_line(line, sizeof(line), "%s/cpu.max", dir)) {
		quota = strtod(line, &rest);
		period = strtod(rest, NULL);
		return rest > line && period > 0 ? quota / period : 0;
	}
	/* Version 1; -1 is no quota. */
	if (!mpib_read_line(line, sizeof(line), "%s/cpu.cfs_quota_us", dir))
		return 0;
	quota = strtod(line, NULL);
	if (quota <= 0 ||
	    !mpib_read_line(line, sizeof(line), "%s/cpu.cfs_period_us", dir))
		return 0;
	return quota / strtod(line, NULL);
}

/* The least quota of the cgroup in dir, below root, and of those above it. */
static void cpu_look(struct cpu_found *found, const char *root, char *dir)
{
	for (;;) {
		double cores = cores_of(dir);
		char path[600], *end = strrchr(dir, '/');
		uint64_t throttled, us;

		snprintf(path, sizeof(path), "%s/cpu.stat", dir);
		throttled = stat_of(path, "nr_throttled");
		us = stat_of(path, "throttled_usec") +
		     stat_of(path, "throttled_time") / 1000;
		if (cores > 0 && (found->quota <= 0 || cores < found->quota))
			found->quota = cores;
		if (throttled > found->throttled) {
			found->throttled = throttled;
			found->throttled_us = us;
		}
		if (!end || strlen(dir) <= strlen(root))
			return;
		*end = '\0';
	}
}

static void cpu_find_cgroup(const struct mpib_doctor *d, uint64_t pid,
			    struct cpu_found *found)
{
	char line[512], name[64], root[128], dir[512];
	FILE *f;

	snprintf(dir, sizeof(dir), "%s/%" PRIu64 "/cgroup", d->proc, pid);
	f = fopen(dir, "re");
	/* Lines "ID:CONTROLLERS:/PATH"; version 2 has no controllers. */
	while (f && fgets(line, sizeof(line), f)) {
		char *controllers = strchr(line, ':');
		char *path = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		controllers++;
		if (*controllers && strncmp(controllers, "cpu", 3) != 0)
			continue;
		snprintf(name, sizeof(name), "%s%.60s", *controllers ? "/" : "",
			 controllers);
		snprintf(root, sizeof(root), "%.40s/fs/cgroup%s", d->sysfs,
			 name);
		if (snprintf(dir, sizeof(dir), "%s%s", root, path) <
		    (int)sizeof(dir))
			cpu_look(found, root, dir);
	}
	if (f)
		fclose(f);
}

/* Field 19 of /proc/PID/stat; the name before it may have blanks. */
static int nice_of(const struct mpib_doctor *d, uint64_t pid)
{
	char line[512], *at;

	if (!mpib_read_line(line, sizeof(line), "%s/%" PRIu64 "/stat", d->proc,
			    pid))
		return 0;
	at = strrchr(line, ')');
	/* Field 3 is the first behind the name. */
	for (unsigned field = 2; at && field < 19; field++)
		at = strchr(at + 1, ' ');
	return at ? (int)strtol(at, NULL, 10) : 0;
}

void mpib_check_cpu(struct mpib_doctor *d)
{
	uint64_t pid = mpib_json_num(d->greeting, "pid");
	size_t shards = json_array_size(json_object_get(d->info, "shards"));
	struct cpu_found found = { 0 };
	unsigned before = d->count[MPIB_WARN];
	int nice;

	if (!pid)
		return;
	nice = nice_of(d, pid);
	cpu_find_cgroup(d, pid, &found);
	if (nice > 0)
		mpib_find(d, MPIB_WARN, "cpu",
			  "Nice=0 or less in mpib-proxy.service",
			  "the proxy runs at nice %d: busy processes take its "
			  "core",
			  nice);
	if (found.quota > 0 && found.quota < (double)(shards ? shards : 1))
		mpib_find(d, MPIB_WARN, "cpu", quota_fix,
			  "the proxy may use %.2f cores and has %zu shards, "
			  "each of which needs one",
			  found.quota, shards ? shards : 1);
	if (found.throttled)
		mpib_find(d, MPIB_WARN, "cpu", quota_fix,
			  "its cgroup was throttled %" PRIu64
			  " times, for %.1f s in all",
			  found.throttled, (double)found.throttled_us / 1e6);
	if (d->count[MPIB_WARN] == before)
		mpib_find(d, MPIB_OK, "cpu", NULL,
			  "nice %d, %s, never throttled", nice,
			  found.quota > 0 ? "with a quota that is enough"
					  : "no quota");
}
