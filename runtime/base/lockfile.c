/* SPDX-License-Identifier: Apache-2.0 */
#include "base/lockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/memseg.h"

int mpib_lockfile_take(int dir, const char *name, int *fd)
{
	struct stat ours, there;

	*fd = openat(dir, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
		     0600);
	if (*fd < 0)
		return -errno;
	/* One that a killed process of an older version left may be a group's. */
	fchmod(*fd, 0600);
	if (flock(*fd, LOCK_EX | LOCK_NB) < 0)
		return -EBUSY;
	/* The plugin takes it, too, which asks for no newer C library: memseg.h. */
	if (mpib_fstat(*fd, &ours) < 0 ||
	    syscall(SYS_newfstatat, dir, name, &there, AT_SYMLINK_NOFOLLOW) <
		    0 ||
	    ours.st_ino != there.st_ino)
		return -EAGAIN;
	return 0;
}
