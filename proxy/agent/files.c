/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the agent's directory: the lock, the hints and the socket. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/slots.h"
#include "base/lockfile.h"

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

/* Whoever may write there would have the agent change files of his choice. */
int mpib_agent_check_dir(const struct mpib_agent *a)
{
	struct stat st;

	if (fstat(a->dir_fd, &st) < 0)
		return -errno;
	return (st.st_uid == 0 || st.st_uid == geteuid()) &&
			       !(st.st_mode & (S_IWGRP | S_IWOTH))
		       ? 0
		       : -EPERM;
}

/* A file, for anybody can lock the directory. */
static int hold_lock(struct mpib_agent *a)
{
	int rc;

	do {
		if (a->lock >= 0)
			close(a->lock);
		rc = mpib_lockfile_take(a->dir_fd, MPIB_AGENT_LOCK, &a->lock);
	} while (rc == -EAGAIN);
	return rc == -EBUSY ? -EADDRINUSE : rc;
}

int mpib_agent_bind(struct mpib_agent *a, gid_t group)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
			0);
	int rc;

	if (fd < 0)
		return -errno;
	snprintf(sun.sun_path, sizeof(sun.sun_path),
		 "/proc/self/fd/%d/" MPIB_AGENT_SOCK, a->dir_fd);
	rc = hold_lock(a);
	/* connect() finds a running agent of an older version, which took another
	 * lock, or none; also where many call it (EAGAIN). */
	if (rc == 0 &&
	    (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0 ||
	     errno == EAGAIN))
		rc = -EADDRINUSE;
	if (rc < 0) {
		close(fd);
		return rc;
	}
	unlinkat(a->dir_fd, MPIB_AGENT_SOCK, 0);
	/* Who may not give it that group serves root and itself alone. */
	if (fchmod(fd, 0600) < 0 ||
	    bind(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0 ||
	    (group != (gid_t)-1 &&
	     fchownat(a->dir_fd, MPIB_AGENT_SOCK, (uid_t)-1, group,
		      AT_SYMLINK_NOFOLLOW) == 0 &&
	     fchmodat(a->dir_fd, MPIB_AGENT_SOCK, 0660, 0) < 0)) {
		rc = -errno;
		close(fd);
		return rc;
	}
	a->fd = fd;
	return 0;
}
