/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the agent's directory: the hints and the socket. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/slots.h"

/* Under a temporary name, then renamed: a proxy that has the old file mapped
 * keeps it, and a proxy that opens the name finds a complete file. */
int mpib_agent_make_hints(struct mpib_agent *a)
{
	static const char tmp[] = MPIB_AGENT_HINTS ".new";
	const struct mpib_hint_header h = {
		.magic = MPIB_HINT_MAGIC,
		.max_entries = MPIB_HINT_MAX_ENTRIES,
		.version = MPIB_HINT_VERSION,
		.more = MPIB_HINT_MORE_MAX,
	};
	const size_t bytes = mpib_hint_bytes(MPIB_HINT_SLOTS_MAX);
	int rc = 0, fd;

	unlinkat(a->dir_fd, tmp, 0);
	fd = openat(a->dir_fd, tmp,
		    O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	if (fchmod(fd, 0644) < 0 || ftruncate(fd, (off_t)bytes) < 0 ||
	    pwrite(fd, &h, sizeof(h), 0) != sizeof(h))
		rc = -errno;
	if (rc == 0) {
		a->shm = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			      fd, 0);
		if (a->shm == MAP_FAILED)
			rc = -errno;
	}
	if (rc == 0 &&
	    renameat(a->dir_fd, tmp, a->dir_fd, MPIB_AGENT_HINTS) < 0)
		rc = -errno;
	close(fd);
	return rc;
}

int mpib_agent_bind(struct mpib_agent *a, gid_t group)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
			0);

	if (fd < 0)
		return -errno;
	snprintf(sun.sun_path, sizeof(sun.sun_path),
		 "/proc/self/fd/%d/" MPIB_AGENT_SOCK, a->dir_fd);
	/* The directory's lock ends with this process. connect() finds a
	 * running agent of an older version, which took no lock. */
	if (flock(a->dir_fd, LOCK_EX | LOCK_NB) < 0 ||
	    connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0) {
		close(fd);
		return -EADDRINUSE;
	}
	unlinkat(a->dir_fd, MPIB_AGENT_SOCK, 0);
	/* Who may not give it that group serves root and itself alone. */
	if (bind(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0 ||
	    fchmodat(a->dir_fd, MPIB_AGENT_SOCK, 0600, 0) < 0 ||
	    (group != (gid_t)-1 &&
	     fchownat(a->dir_fd, MPIB_AGENT_SOCK, (uid_t)-1, group,
		      AT_SYMLINK_NOFOLLOW) == 0 &&
	     fchmodat(a->dir_fd, MPIB_AGENT_SOCK, 0660, 0) < 0)) {
		int rc = -errno;

		close(fd);
		return rc;
	}
	a->fd = fd;
	return 0;
}
