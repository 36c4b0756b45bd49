/* SPDX-License-Identifier: Apache-2.0 */
#include "base/line.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Without stdio, which allocates: a child that was forked in the midst of
 * another thread's call asks, too. The kernel gives such a file in one piece. */
bool mpib_read_line(char *buf, size_t len, const char *fmt, ...)
{
	char path[512];
	ssize_t n = 0;
	va_list ap;
	int fd;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, buf, len - 1);
		close(fd);
	}
	buf[n > 0 ? n : 0] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
	return buf[0];
}
