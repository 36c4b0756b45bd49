/* SPDX-License-Identifier: Apache-2.0 */
#include "addr.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Open the file without O_CREAT if it exists, because with O_CREAT the kernel
 * may refuse to open another user's file in /tmp. */
static int open_lock(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0 || errno != ENOENT)
		return fd;
	fd = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd >= 0)
		fchmod(fd, 0644);
	return fd;
}

/* Lock the file. Return false if another process has the lock or has removed
 * the file since it was opened. */
static bool take(int fd, const char *path)
{
	struct stat ours, there;

	return !flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &ours) &&
	       !stat(path, &there) && ours.st_ino == there.st_ino;
}

static uint32_t claim(void)
{
	unsigned pid = (unsigned)getpid();

	for (unsigned i = 0; i < 60000; i++) {
		uint32_t n = 128 + (pid + i) % 100;
		char path[32];
		int fd;

		snprintf(path, sizeof(path), "/tmp/mpib-net.%u", n);
		fd = open_lock(path);
		if (fd >= 0 && take(fd, path))
			return 127u << 24 | n << 16 | pid % 250 << 8;
		if (fd >= 0)
			close(fd);
		if (i % 100 == 99)
			usleep(100000);
	}
	fprintf(stderr, "no network of 127.128 to 127.227 is free "
			"(fuser -v /tmp/mpib-net.*)\n");
	exit(1);
}

uint32_t test_addr(unsigned host)
{
	static uint32_t net;

	if (!net)
		net = claim();
	return net | host;
}
