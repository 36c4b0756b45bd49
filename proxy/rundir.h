/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run directory, which one proxy at a time uses. It has a lock file, the
 * control socket, the stats socket and proxy.pid. The admin socket is in a
 * directory of its own, beside the run directory. The run directory and the
 * lock file stay when the proxy ends: containers mount the directory, and
 * clients wait for the next proxy there. Control thread.
 */
#ifndef MPIB_PROXY_RUNDIR_H
#define MPIB_PROXY_RUNDIR_H

#include <stddef.h>
#include <sys/types.h>

/* Room for the path of the admin socket's directory. */
#define MPIB_ADMIN_PATH_MAX 104

struct mpib_rundir {
	char path[96];
	int dir, lock; /* -1 while closed */
	gid_t gid; /* group of all files here; -1: the process's group */
};

/* Write the default path: /run/mpib as root, else $XDG_RUNTIME_DIR/mpib. If
 * that variable is not set, returns -ENOENT with `why` as in config.h. */
int mpib_rundir_default(char *buf, size_t len, char *why);

/*
 * Make the directory, or use an existing one, and lock it. The directory and
 * the sockets belong to `group`. If that is "" or unknown, only the proxy's
 * user can attach. Returns 0 or -errno. -EBUSY: another proxy runs here, and
 * `why` names its pid.
 */
int mpib_rundir_open(struct mpib_rundir *rd, const char *path,
		     const char *group, char *why);
/* Return the pid in proxy.pid; 0: there is none. A proxy that stops removes the
 * file. */
int mpib_rundir_holder(const struct mpib_rundir *rd);
/* Write the pid of the serving process into proxy.pid. Returns 0 or -errno. */
int mpib_rundir_write_pid(struct mpib_rundir *rd, pid_t pid, char *why);
/* Make a listening socket of type SOCK_SEQPACKET or SOCK_STREAM with mode 0660.
 * It replaces the socket that a dead proxy left. Returns the fd or -errno. */
int mpib_rundir_listen(struct mpib_rundir *rd, const char *name, int type,
		       char *why);
/* Make the admin socket, with mode 0600. The socket is in a directory of its
 * own beside the run directory. Only the proxy's user may enter this directory.
 * Returns the fd or -errno. */
int mpib_rundir_listen_admin(const struct mpib_rundir *rd, char *why);
/* Remove the sockets, proxy.pid, the admin socket and the empty admin
 * directory, and close rd. Files of another proxy that replaced this one stay.
 * `keep` is the name of a socket that systemd made and that stays; NULL:
 * none. */
void mpib_rundir_close(struct mpib_rundir *rd, const char *keep);

/*
 * The sockets of the run directory. A cleaner of temporary files, or a person,
 * may remove the sockets or the whole directory while the proxy serves. Then no
 * process could attach, so the proxy makes the missing ones again. Control
 * thread.
 */

struct mpib_proxy;

/* Make all sockets that this proxy listens on. systemd may have passed the
 * control socket. Returns 0, or -errno with `why` as in config.h. */
int mpib_sockets_open(struct mpib_proxy *p, char *why);

/* Make removed sockets again, and the run directory with its lock. Call this
 * regularly. Attached clients and open connections are not affected. */
void mpib_sockets_check(struct mpib_proxy *p);

#endif
