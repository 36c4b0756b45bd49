/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run directory, of one proxy at a time: a lock file, the three sockets and
 * proxy.pid; and the admin socket beside it. The directory and the lock file stay
 * when the proxy ends: containers mount the directory, and clients wait for the
 * next proxy there. Control thread.
 */
#ifndef MPIB_PROXY_RUNDIR_H
#define MPIB_PROXY_RUNDIR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Room for the path of the admin socket's directory. */
#define MPIB_ADMIN_PATH_MAX 104

struct mpib_rundir {
	char path[96];
	int dir, lock; /* -1 while closed */
	gid_t gid; /* group of directory and sockets, -1: the process's */
};

/* The default path: /run/mpib as root, else $XDG_RUNTIME_DIR/mpib. -ENOENT if
 * that is not set; why as in config.h. */
int mpib_rundir_default(char *buf, size_t len, char *why);

/*
 * Make the directory, or use an existing one, and lock it. Directory and
 * sockets belong to group; with "" or an unknown group only the proxy's user
 * can attach. -EBUSY: another proxy runs here, why names its pid. -errno.
 */
int mpib_rundir_open(struct mpib_rundir *rd, const char *path,
		     const char *group, char *why);
/* Write the pid of the serving process into proxy.pid. -errno. */
int mpib_rundir_write_pid(struct mpib_rundir *rd, pid_t pid, char *why);
/* Return whether the socket of that name still exists; the same for the admin
 * socket. */
bool mpib_rundir_has(const struct mpib_rundir *rd, const char *name);
/* Make a listening socket of type SOCK_SEQPACKET or SOCK_STREAM with mode 0660,
 * replacing the one that a dead proxy left. fd, or -errno. */
int mpib_rundir_listen(struct mpib_rundir *rd, const char *name, int type,
		       char *why);
/* Make the admin socket, with mode 0600, in a directory beside the run
 * directory that only the proxy's user may enter. fd, or -errno. */
int mpib_rundir_listen_admin(const struct mpib_rundir *rd, char *why);
/* Remove the sockets, proxy.pid, the admin socket and the empty directory of that
 * (not those of another proxy that replaced it), and close rd. keep: a socket
 * that systemd made and that stays; NULL: none. */
void mpib_rundir_close(struct mpib_rundir *rd, const char *keep);

/*
 * The sockets of the run directory. A cleaner of temporary files, or a person, may
 * remove them, or the whole directory, while the proxy serves. Then nothing can
 * attach or ask any more, so the proxy makes them again. Control thread.
 */

struct mpib_proxy;

/* Make all sockets that this proxy listens on. The control socket may be one that
 * systemd passed. -errno, with why as in config.h. */
int mpib_sockets_open(struct mpib_proxy *p, char *why);

/* Make removed sockets again, and the run directory with its lock. Call it
 * regularly. Attached clients and open connections are not affected. */
void mpib_sockets_check(struct mpib_proxy *p);

#endif
