/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

bool mpib_number(const char *text, uint64_t least, uint64_t most, uint64_t *n)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*n = strtoull(text, &end, 10);
	return !*end && errno == 0 && *n >= least && *n <= most;
}

/* A pipe or a terminal answers when somebody writes, and /dev/zero has no end. */
static bool text_ends(const struct stat *st)
{
	return S_ISREG(st->st_mode) || S_ISDIR(st->st_mode) ||
	       (S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3));
}

int mpib_text_open(struct mpib_text_file *t, const char *path, const char **bad)
{
	struct stat st;
	int rc = 0;

	t->at = t->end = 0;
	t->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (t->fd < 0 || fstat(t->fd, &st) < 0) {
		rc = -errno;
		*bad = strerror(errno);
	} else if (!text_ends(&st)) {
		rc = -EINVAL;
		*bad = "it is no regular file";
	}
	if (rc < 0 && t->fd >= 0)
		close(t->fd);
	return rc;
}

/* Whether there is more; -errno. */
static int text_more(struct mpib_text_file *t)
{
	ssize_t n;

	if (t->at < t->end)
		return 1;
	do
		n = read(t->fd, t->buf, sizeof(t->buf));
	while (n < 0 && errno == EINTR);
	t->at = 0;
	t->end = n > 0 ? (size_t)n : 0;
	return n < 0 ? -errno : n > 0;
}

ssize_t mpib_text_line(struct mpib_text_file *t, char *line, size_t size)
{
	ssize_t len = 0;
	size_t kept = 0;
	bool ended = false;
	int rc = 1;

	while (!ended && (rc = text_more(t)) > 0) {
		const char *from = t->buf + t->at;
		size_t n = t->end - t->at, fits = size - 1 - kept;
		const char *end = memchr(from, '\n', n);

		ended = end;
		if (end)
			n = (size_t)(end - from) + 1;
		fits = fits < n ? fits : n;
		memcpy(line + kept, from, fits);
		kept += fits;
		t->at += n;
		len += (ssize_t)n;
	}
	line[kept] = '\0';
	return rc < 0 ? rc : len;
}

void mpib_text_close(struct mpib_text_file *t)
{
	close(t->fd);
}
