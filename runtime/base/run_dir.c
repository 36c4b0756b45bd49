/* SPDX-License-Identifier: Apache-2.0 */
#include "base/run_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mpib/control.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/memseg.h"

const char *mpib_run_dir_default(char *buf, size_t len)
{
	const char *dir = getenv("MPIB_RUN_DIR");
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	char sock[PATH_MAX];
	int n;

	if (dir && *dir)
		n = snprintf(buf, len, "%s", dir);
	else if (geteuid() != 0 && xdg && *xdg &&
		 snprintf(buf, len, "%s/mpib", xdg) < (int)len &&
		 snprintf(sock, sizeof(sock), "%s/" MPIB_CONTROL_SOCK, buf) <
			 (int)sizeof(sock) &&
		 access(sock, F_OK) == 0)
		return buf; /* this user runs a proxy */
	else
		n = snprintf(buf, len, "/run/mpib");
	return n > 0 && (size_t)n < len ? buf : NULL;
}

bool mpib_admin_dir(const char *run_dir, char *buf, size_t len)
{
	char whole[PATH_MAX];

	return realpath(run_dir, whole) &&
	       snprintf(buf, len, "%s" MPIB_ADMIN_SUFFIX, whole) < (int)len;
}

int mpib_lockfile_take(int dir, const char *name, int *fd)
{
	struct stat ours, there;

	*fd = openat(dir, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
		     0600);
	if (*fd < 0)
		return -errno;
	/* An older version may have left the file accessible to a group. */
	fchmod(*fd, 0600);
	if (flock(*fd, LOCK_EX | LOCK_NB) < 0)
		return -EBUSY;
	/* Use mpib_fstat() here: the plugin must not need a newer C library. */
	if (mpib_fstat(*fd, &ours) < 0 ||
	    syscall(SYS_newfstatat, dir, name, &there, AT_SYMLINK_NOFOLLOW) <
		    0 ||
	    ours.st_ino != there.st_ino)
		return -EAGAIN;
	return 0;
}
