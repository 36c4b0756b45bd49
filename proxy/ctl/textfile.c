/* SPDX-License-Identifier: Apache-2.0 */
/* Writing metrics into a file for a textfile collector. */
#include "ctl/textfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int textfile_fail(struct mpib_dial *d, const char *file)
{
	snprintf(d->why, sizeof(d->why),
		 "%.256s: %s (name a file in a directory you may write)", file,
		 strerror(errno));
	return MPIB_EXIT_FAILED;
}

/* Whether file is there and is none, as /dev/stdout, which would be no device and no
 * link any more. */
static bool textfile_other(const char *file)
{
	struct stat st;

	return lstat(file, &st) == 0 && !S_ISREG(st.st_mode);
}

/* Create a temporary file in the directory of file, so that rename() works.
 * Collectors skip it, since its name does not end with .prom. */
static int textfile_temporary(const char *file, char *path, size_t len)
{
	const char *slash = strrchr(file, '/');
	int dir = slash ? (int)(slash - file + 1) : 0;

	if (snprintf(path, len, "%.*s.mpib-XXXXXX", dir, file) >= (int)len) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return mkostemp(path, O_CLOEXEC);
}

int mpib_textfile_write(struct mpib_dial *d, const char *command,
			const char *file)
{
	char path[PATH_MAX];
	int fd, rc;
	FILE *out;
	bool failed;

	if (textfile_other(file)) {
		snprintf(d->why, sizeof(d->why),
			 "%.256s: it is no regular file (name one; without "
			 "--textfile metrics go to standard output)",
			 file);
		return MPIB_EXIT_FAILED;
	}
	fd = textfile_temporary(file, path, sizeof(path));
	out = fd < 0 ? NULL : fdopen(fd, "w");
	if (!out) {
		rc = textfile_fail(d, file);
		if (fd >= 0) {
			close(fd);
			unlink(path);
		}
		return rc;
	}
	rc = mpib_dial_text(d, command, out);
	failed = fflush(out) || ferror(out) || fchmod(fd, 0644) < 0;
	failed |= fclose(out) != 0;
	if (rc == MPIB_EXIT_OK && (failed || rename(path, file) < 0))
		rc = textfile_fail(d, file);
	if (rc != MPIB_EXIT_OK)
		unlink(path);
	return rc;
}
