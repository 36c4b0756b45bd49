/* SPDX-License-Identifier: Apache-2.0 */
/* The two functions for sysfs that programs found in libibverbs 1.0. */
#include "softverbs/softverbs.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf,
			size_t size);

SV_EXPORT const char *ibv_get_sysfs_path(void)
{
	return "/sys";
}

/* Read dir/file into buf, without its last newline and with a 0 at the end.
 * Returns the length, or -1: no such file, or it does not fit. */
SV_EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf,
				  size_t size)
{
	char path[IBV_SYSFS_PATH_MAX * 2];
	ssize_t len;
	int fd;

	if (snprintf(path, sizeof(path), "%s/%s", dir, file) >=
	    (int)sizeof(path))
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	len = read(fd, buf, size);
	close(fd);
	if (len > 0 && buf[len - 1] == '\n')
		len--;
	if (len < 0 || (size_t)len >= size)
		return -1;
	buf[len] = 0;
	return (int)len;
}
