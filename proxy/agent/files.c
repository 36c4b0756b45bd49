/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the agent's directory: the lock, the hints and the socket. */
#include <errno.h>
#include <fcntl.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
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

/* Let that user's proxies connect, and nobody who is only in its group: with the
 * packages those are all who may attach. */
static int admit_user(const char *sock, uid_t user)
{
	const struct {
		struct posix_acl_xattr_header h;
		struct posix_acl_xattr_entry entry[5];
	} acl = {
		.h.a_version = htole32(POSIX_ACL_XATTR_VERSION),
		.entry = {
			{ htole16(ACL_USER_OBJ), htole16(6), UINT32_MAX },
			{ htole16(ACL_USER), htole16(6), htole32(user) },
			{ htole16(ACL_GROUP_OBJ), 0, UINT32_MAX },
			{ htole16(ACL_MASK), htole16(6), UINT32_MAX },
			{ htole16(ACL_OTHER), 0, UINT32_MAX },
		},
	};

	return setxattr(sock, "system.posix_acl_access", &acl, sizeof(acl), 0) <
			       0
		       ? -errno
		       : 0;
}

/* Where the file system has no lists of users, it has to be their group. */
static int admit(const struct mpib_agent *a, const char *sock, gid_t group)
{
	if (a->user == geteuid() || group == (gid_t)-1 ||
	    admit_user(sock, a->user) == 0)
		return 0;
	/* An agent that may not give that group serves root and itself alone. */
	if (getegid() != group &&
	    fchownat(a->dir_fd, MPIB_AGENT_SOCK, (uid_t)-1, group,
		     AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return fchmodat(a->dir_fd, MPIB_AGENT_SOCK, 0660, 0) < 0 ? -errno : 0;
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
	rc = fchmod(fd, 0600) < 0 ||
			     bind(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0
		     ? -errno
		     : admit(a, sun.sun_path, group);
	if (rc < 0)
		close(fd);
	else
		a->fd = fd;
	return rc < 0 ? rc : 0;
}
