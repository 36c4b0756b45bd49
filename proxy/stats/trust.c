/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/trust.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

/* 1: pid has this process's namespace of that kind; 0: another one; -errno:
 * the kernel does not let this process look. */
static int same_namespace(pid_t pid, const char *kind)
{
	struct stat ours, theirs;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
	if (stat(path, &ours) < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, kind);
	if (stat(path, &theirs) < 0)
		return -errno;
	return ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

/* Whether the process of pidfd lives, so that its pid was its own all along. */
static bool trust_alive(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, 0) == 0;
}

int mpib_trust_caller(int sock, char *why, size_t len)
{
	static const char *const kinds[] = { "mnt", "user" };
	struct ucred cred;
	socklen_t size = sizeof(cred), pidfd_size = sizeof(int);
	int pidfd = -1, rc = 1;

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0 ||
	    cred.pid <= 0)
		rc = -ESRCH;
	if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &pidfd_size) < 0)
		pidfd = -1; /* an older kernel has none */
	for (unsigned i = 0; rc == 1 && i < 2; i++)
		rc = same_namespace(cred.pid, kinds[i]);
	if (pidfd >= 0) {
		if (!trust_alive(pidfd))
			rc = -ESRCH;
		close(pidfd);
	}
	if (rc == 1)
		return 0;
	if (rc == 0)
		snprintf(why, len,
			 "a path is taken from the proxy's own mount and user "
			 "namespaces only, and pid %d is in others",
			 (int)cred.pid);
	else
		snprintf(why, len,
			 "a path is taken from the proxy's own mount and user "
			 "namespaces only, and the proxy may not see the "
			 "caller's: %s",
			 strerror(-rc));
	return -EPERM;
}

/* In a directory with the sticky bit only the owner of an entry replaces it. */
static bool safe_from_others(const struct stat *st)
{
	return !(st->st_mode & 022) ||
	       (S_ISDIR(st->st_mode) && st->st_mode & S_ISVTX);
}

/* One component of the path, from "/" to the file itself. */
static int trust_component(const char *path, uid_t asker, char *why, size_t len)
{
	struct stat st;

	if (lstat(path, &st) < 0) {
		snprintf(why, len, "%.100s: %s", path, strerror(errno));
		return -EPERM;
	}
	if (st.st_uid != 0 && st.st_uid != asker) {
		snprintf(why, len, "%.100s belongs to uid %u", path, st.st_uid);
		return -EPERM;
	}
	if (!safe_from_others(&st)) {
		snprintf(why, len, "%.100s: others than uid %u may write there",
			 path, st.st_uid);
		return -EPERM;
	}
	return 0;
}

int mpib_trust_path(const char *path, uid_t asker, char *why, size_t len)
{
	char whole[PATH_MAX];
	int rc;

	/* A link, or /proc/PID/root, could lead elsewhere afterwards. */
	if (!realpath(path, whole)) {
		snprintf(why, len, "%.100s: %s", path, strerror(errno));
		return -EINVAL;
	}
	if (strcmp(path, whole)) {
		snprintf(why, len,
			 "\"%.64s\" is no whole path from / without links",
			 path);
		return -EINVAL;
	}
	rc = trust_component("/", asker, why, len);
	for (size_t n = 0; rc == 0 && whole[n];) {
		char upto[PATH_MAX];

		n += 1 + strcspn(whole + n + 1, "/");
		memcpy(upto, whole, n);
		upto[n] = '\0';
		rc = trust_component(upto, asker, why, len);
	}
	return rc;
}
