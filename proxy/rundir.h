/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run directory: one proxy at a time, two sockets, proxy.pid, and nothing
 * of it left at exit. Control thread.
 */
#ifndef MPIB_PROXY_RUNDIR_H
#define MPIB_PROXY_RUNDIR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct mpib_rundir {
	char path[96];
	int dir, lock; /* -1 while closed */
	gid_t gid; /* of the directory and the sockets, -1: ours */
	bool made; /* the directory is ours to remove */
};

/* /run/mpib as root, else $XDG_RUNTIME_DIR/mpib. -ENOENT when there is
 * neither; why as in config.h. */
int mpib_rundir_default(char *buf, size_t len, char *why);

/*
 * Make or take the directory and lock it; what a dead proxy left is removed.
 * group may own the sockets ("" or an unknown one: nobody but us). -EBUSY:
 * another proxy runs here, why names its pid. -errno.
 */
int mpib_rundir_open(struct mpib_rundir *rd, const char *path,
		     const char *group, char *why);
/* The same of another process of ours, which holds the lock that lock is a
 * descriptor of; that is ours from now on, and we may outlive it. -errno. */
int mpib_rundir_inherit(struct mpib_rundir *rd, const char *path,
			const char *group, int lock, char *why);
/* Again after a fork, which changes the pid: write proxy.pid. -errno. */
int mpib_rundir_write_pid(struct mpib_rundir *rd, pid_t pid, char *why);
/* A listening socket of SOCK_SEQPACKET or SOCK_STREAM, mode 0660. fd, or
 * -errno. */
int mpib_rundir_listen(struct mpib_rundir *rd, const char *name, int type,
		       char *why);
/* keep: a socket somebody else made and listens on (systemd), NULL: none. */
void mpib_rundir_close(struct mpib_rundir *rd, const char *keep);

#endif
