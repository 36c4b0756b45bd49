/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's directory with its socket and hint file, and whether the files
 * may be trusted. Who writes hints steers all traffic over one rail, so only
 * root, our own user and the agent's may be able to. Control thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpib/agent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/closer.h"

static bool agent_trusted(uid_t uid, uid_t user)
{
	return uid == 0 || uid == geteuid() ||
	       (user != MPIB_AGENT_NO_USER && uid == user);
}

static int dir_trusted(const struct stat *st, uid_t user)
{
	if (!agent_trusted(st->st_uid, user) ||
	    st->st_mode & (S_IWGRP | S_IWOTH))
		return -EPERM;
	return 0;
}

int mpib_agent_dir_open(const char *dir, uid_t user)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int rc;

	if (fd < 0)
		return -errno;
	rc = fstat(fd, &st) < 0 ? -errno : dir_trusted(&st, user);
	if (rc < 0) {
		close(fd);
		return rc;
	}
	return fd;
}

int mpib_agent_dial(int dir, uid_t user)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int rc, fd = socket(AF_UNIX,
			    SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	/* Through the fd: the directory that was checked, even if its path
	 * leads to another one by now. */
	snprintf(sun.sun_path, sizeof(sun.sun_path),
		 "/proc/self/fd/%d/" MPIB_AGENT_SOCK, dir);
	if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		rc = -errno;
	else
		rc = agent_trusted(cred.uid, user) ? 0 : -EPERM;
	if (rc < 0) {
		mpib_close_of(user, fd);
		return rc;
	}
	return fd;
}

/* Whether a file of so many bytes can be the one that its header describes. */
static bool hints_sound(const struct mpib_hint_header *h, off_t bytes)
{
	return h->magic == MPIB_HINT_MAGIC &&
	       h->max_entries == MPIB_HINT_MAX_ENTRIES &&
	       h->more <= MPIB_HINT_MORE_MAX &&
	       bytes == (off_t)mpib_hint_bytes(h->max_entries + h->more);
}

int mpib_agent_hints_open(int dir, uid_t user, uint32_t *slots)
{
	int rc, fd = openat(dir, MPIB_AGENT_HINTS,
			    O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct mpib_hint_header h;
	struct stat st;

	if (fd < 0)
		return -errno;
	rc = fstat(fd, &st) < 0 ? -errno : dir_trusted(&st, user);
	if (rc == 0 &&
	    (!S_ISREG(st.st_mode) || pread(fd, &h, sizeof(h), 0) != sizeof(h) ||
	     !hints_sound(&h, st.st_size)))
		rc = -EPROTO;
	if (rc < 0) {
		close(fd);
		return rc;
	}
	*slots = h.max_entries + h.more;
	return fd;
}

const char *mpib_agent_dir_error(int rc)
{
	switch (rc) {
	case -EPERM:
		return "it must belong to root, to the proxy's user or to "
		       "agent.user, and be writable for nobody else";
	case -EPROTO:
		return "its hints are not of this format (is the agent of "
		       "another version?)";
	case -ENOENT:
	case -ECONNREFUSED:
		return "no agent is there (start mpib-agent)";
	default:
		return strerror(-rc);
	}
}
