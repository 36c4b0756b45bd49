/* SPDX-License-Identifier: Apache-2.0 */
#include "buffer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

unsigned buffer_held(const struct node *node, const char *name)
{
	char dir[64], path[400], target[256];
	struct dirent *e;
	unsigned n = 0;
	DIR *d;

	snprintf(dir, sizeof(dir), "/proc/%d/fd", node->pid);
	d = opendir(dir);
	if (!d && errno == EACCES)
		skip_as("only root can list a proxy's descriptors");
	assert_non_null(d);
	while ((e = readdir(d))) {
		ssize_t len;

		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		len = readlink(path, target, sizeof(target) - 1);
		if (len <= 0)
			continue;
		target[len] = '\0';
		n += strstr(target, name) != NULL;
	}
	closedir(d);
	return n;
}

void buffer_until_held(const struct node *node, const char *name, unsigned n)
{
	unsigned long long until = node_ms() + 60000;

	while (buffer_held(node, name) != n) {
		if (node_ms() > until)
			fail_msg("the proxy still holds %s %u times", name,
				 buffer_held(node, name));
		usleep(1000);
	}
}

bool buffer_mapped(const struct node *node, const char *name)
{
	char path[64], line[512];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", node->pid);
	f = fopen(path, "r");
	if (!f && errno == EACCES)
		skip_as("only root can list a proxy's mappings");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		found |= strstr(line, name) != NULL;
	fclose(f);
	return found;
}

int buffer_make(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, BUFFER_SIZE), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	return fd;
}
