/* SPDX-License-Identifier: Apache-2.0 */
#include "client/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

/* The number in the file, if there is one and it is less than most. */
static uint64_t least_of(const char *path, uint64_t most)
{
	char text[32], *end;
	uint64_t n;

	mpib_read_line(text, sizeof(text), "%s", path);
	n = strtoull(text, &end, 10); /* UINT64_MAX, if it is too large */
	return end == text || n > most ? most : n; /* "max" is no number */
}

/* The least limit of the cgroup at path, below root/controller, and of those
 * above it. Where a container sees its own cgroups as the root, path may name
 * folders that are not there; those count as without a limit. */
static uint64_t least_above(const char *root, const char *controller,
			    char *path, const char *name, uint64_t most)
{
	for (;;) {
		char file[512], *end;

		if (snprintf(file, sizeof(file), "%s%s%s/%s", root, controller,
			     path, name) < (int)sizeof(file))
			most = least_of(file, most);
		end = strrchr(path, '/');
		if (!end)
			return most;
		*end = '\0';
	}
}

uint64_t mpib_memory_bound_of(const char *cgroups, const char *root,
			      uint64_t machine)
{
	char line[512];
	FILE *f = fopen(cgroups, "re");

	if (!f)
		return machine;
	/* Lines "ID:CONTROLLERS:/PATH"; version 2 has no controllers. */
	while (fgets(line, sizeof(line), f)) {
		char *controllers = strchr(line, ':');
		char *path = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		if (!strcmp(controllers, ":"))
			machine = least_above(root, "", path, "memory.max",
					      machine);
		else if (!strcmp(controllers, ":memory"))
			machine = least_above(root, "/memory", path,
					      "memory.limit_in_bytes", machine);
	}
	fclose(f);
	return machine;
}

uint64_t mpib_memory_bound(void)
{
	return mpib_memory_bound_of("/proc/self/cgroup", "/sys/fs/cgroup",
				    (uint64_t)sysconf(_SC_PHYS_PAGES) *
					    (uint64_t)sysconf(_SC_PAGESIZE));
}
