/* SPDX-License-Identifier: Apache-2.0 */
#include "holds.h"

#include <glob.h>
#include <stdio.h>
#include <unistd.h>

#include "node.h"
#include "test.h"

/* Count the sockets and memory files that a thread has open. */
static unsigned task_open(const char *task)
{
	char path[80], to[128];
	unsigned n = 0;
	glob_t all;

	snprintf(path, sizeof(path), "%.60s/fd/*", task);
	if (glob(path, 0, NULL, &all) != 0)
		return 0;
	for (size_t i = 0; i < all.gl_pathc; i++) {
		ssize_t len = readlink(all.gl_pathv[i], to, sizeof(to) - 1);

		to[len > 0 ? len : 0] = '\0';
		n += !strncmp(to, "socket:", 7) || !strncmp(to, "/memfd:", 7);
	}
	globfree(&all);
	return n;
}

/* Count the thread's shared mappings. */
static unsigned task_mapped(const char *task)
{
	char path[80], line[512], kind;
	unsigned n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%.60s/maps", task);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		n += sscanf(line, "%*x-%*x %*3c%c", &kind) == 1 && kind == 's';
	if (f)
		fclose(f);
	return n;
}

unsigned holds(pid_t pid)
{
	unsigned held = 0;
	char path[64];
	glob_t all;

	snprintf(path, sizeof(path), "/proc/%d/task/[0-9]*", pid);
	if (glob(path, 0, NULL, &all) != 0)
		return 0; /* the thread has ended */
	for (size_t i = 0; i < all.gl_pathc; i++) {
		unsigned n = task_open(all.gl_pathv[i]) +
			     task_mapped(all.gl_pathv[i]);

		held = n > held ? n : held;
	}
	globfree(&all);
	return held;
}

void until_holds_at_most(pid_t pid, unsigned most)
{
	unsigned long long until = node_ms() + 20000;
	unsigned held;

	do {
		usleep(10000);
		held = holds(pid);
	} while (held > most && node_ms() < until);
	assert_in_range(held, 0, most);
}
