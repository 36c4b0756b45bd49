/* SPDX-License-Identifier: Apache-2.0 */
/* Make, check and lock the run directory, and remove its files. */
#include "rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <mpib/control.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/event.h"
#include "base/run_dir.h"
#include "config/config.h"
#include "daemon.h"
#include "proxy.h"

#define LOCK "lock"
#define PID "proxy.pid"

int mpib_rundir_default(char *buf, size_t len, char *why)
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");

	if (geteuid() == 0)
		snprintf(buf, len, "/run/mpib");
	else if (xdg && xdg[0] == '/')
		snprintf(buf, len, "%s/mpib", xdg);
	else
		return mpib_why_fail(
			why, -ENOENT,
			"run directory: XDG_RUNTIME_DIR is not set (give "
			"--run-dir)");
	return 0;
}

static gid_t group_of(const char *name)
{
	struct group *g = name[0] ? getgrnam(name) : NULL;

	return g ? g->gr_gid : (gid_t)-1;
}

/* Check the owner and the mode. Another user that can write to the directory
 * could replace the proxy's sockets. */
static int check_dir(const char *path, const struct stat *st, char *why)
{
	if (st->st_uid != geteuid() && st->st_uid != 0)
		return mpib_why_fail(
			why, -EPERM,
			"run directory %s: belongs to uid %u (remove it "
			"or give another --run-dir)",
			path, st->st_uid);
	if (st->st_mode & (S_IWOTH | S_IWGRP))
		return mpib_why_fail(
			why, -EPERM,
			"run directory %s: %s may write there (give a "
			"directory of its own, or chmod go-w it)",
			path,
			st->st_mode & S_IWOTH ? "anybody" : "its whole group");
	return 0;
}

static int open_dir(struct mpib_rundir *rd, char *why)
{
	bool made = mkdir(rd->path, 0750) == 0;
	struct stat st;
	int rc;

	if (!made && errno != EEXIST)
		return mpib_why_fail(
			why, -errno,
			"run directory %s: %s (create its parent, or give "
			"--run-dir)",
			rd->path, strerror(errno));
	rd->dir =
		open(rd->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* Call fchmod(), so that the group may enter the directory, whatever
	 * the umask is. */
	if (rd->dir < 0 || (made && fchmod(rd->dir, 0750) < 0) ||
	    fstat(rd->dir, &st) < 0)
		return errno == ENOTDIR || errno == ELOOP
			       ? mpib_why_fail(why, -errno,
					       "run directory %s: %s (give a "
					       "directory, not a link)",
					       rd->path, strerror(errno))
			       : mpib_why_fail(why, -errno,
					       "run directory %s: %s (run "
					       "mpib-proxy as its owner, or "
					       "give another --run-dir)",
					       rd->path, strerror(errno));

	rc = check_dir(rd->path, &st, why);
	/* If fchown() is not permitted, only the proxy's own user can attach,
	 * which is safe. */
	if (rc == 0 && made && rd->gid != (gid_t)-1 &&
	    fchown(rd->dir, (uid_t)-1, rd->gid) < 0)
		rd->gid = (gid_t)-1;
	return rc;
}

int mpib_rundir_holder(const struct mpib_rundir *rd)
{
	char text[16] = "";
	int fd = openat(rd->dir, PID, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return 0;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(fd);
	return (int)strtol(text, NULL, 10);
}

static int take_lock(struct mpib_rundir *rd, char *why)
{
	int rc = mpib_lockfile_take(rd->dir, LOCK, &rd->lock);
	int holder = rc == -EBUSY ? mpib_rundir_holder(rd) : 0;
	char pid[24] = "";

	if (holder)
		snprintf(pid, sizeof(pid), ", pid %d", holder);
	if (rc == -EBUSY)
		return mpib_why_fail(
			why, rc,
			"run directory %s: mpib-proxy already runs there%s "
			"(stop it, or give another --run-dir)",
			rd->path, pid);
	if (rc < 0)
		return mpib_why_fail(why, rc,
				     "lock %s/" LOCK ": %s (give --run-dir)",
				     rd->path, strerror(-rc));
	return 0;
}

static void rundir_release(struct mpib_rundir *rd)
{
	if (rd->lock >= 0)
		close(rd->lock);
	if (rd->dir >= 0)
		close(rd->dir);
	rd->lock = rd->dir = -1;
}

static void rundir_clear(struct mpib_rundir *rd, const char *keep)
{
	static const char *const names[] = { MPIB_CONTROL_SOCK, MPIB_STATS_SOCK,
					     PID };

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!keep || strcmp(names[i], keep))
			unlinkat(rd->dir, names[i], 0);
	}
}

int mpib_rundir_open(struct mpib_rundir *rd, const char *path,
		     const char *group, char *why)
{
	int rc;

	*rd = (struct mpib_rundir){ .dir = -1, .lock = -1 };
	/* sun_path has 108 bytes, for this path and a socket's name. */
	if (strlen(path) >= sizeof(rd->path) - 1)
		return mpib_why_fail(
			why, -ENAMETOOLONG,
			"run directory %.120s: longer than %zu bytes (give "
			"a shorter --run-dir)",
			path, sizeof(rd->path) - 2);
	snprintf(rd->path, sizeof(rd->path), "%s", path);
	rd->gid = group_of(group);

	rc = open_dir(rd, why);
	if (rc == 0)
		rc = take_lock(rd, why);
	if (rc < 0)
		rundir_release(rd);
	return rc;
}

int mpib_rundir_write_pid(struct mpib_rundir *rd, pid_t pid, char *why)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%d\n", (int)pid);
	int rc = 0;
	/* Overwrite the file in place: this needs no free space, and the file
	 * always has a pid. */
	int fd = openat(rd->dir, PID,
			O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);

	if (fd < 0 || pwrite(fd, text, (size_t)len, 0) != len ||
	    ftruncate(fd, len) < 0)
		rc = mpib_why_fail(why, -errno,
				   "%s/" PID ": %s (see the directory and its "
				   "file system)",
				   rd->path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return rc;
}

/* Make a listening socket in the directory `dir`, whose path is `path`. */
static int rundir_listen_in(int dir, const char *path, const char *name,
			    int type, gid_t gid, mode_t mode, char *why)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd, rc;

	if (snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/%s", path, name) >=
	    (int)sizeof(sun.sun_path))
		return mpib_why_fail(why, -ENAMETOOLONG,
				     "socket %s/%s: too long", path, name);

	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		goto err_why;
	/* The old socket is that of a dead proxy, because this proxy has the
	 * lock. */
	if (unlinkat(dir, name, 0) < 0 && errno != ENOENT) {
		rc = -errno;
		close(fd);
		return mpib_why_fail(why, rc,
				     "socket %s/%s: the file of that name "
				     "cannot be removed: %s (remove it)",
				     path, name, strerror(-rc));
	}

	/* Bind with mode 0600, so that no other user connects before group and
	 * mode are set. */
	if (fchmod(fd, 0600) < 0 ||
	    bind(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0 ||
	    (gid != (gid_t)-1 &&
	     fchownat(dir, name, (uid_t)-1, gid, AT_SYMLINK_NOFOLLOW) < 0 &&
	     errno != EPERM) ||
	    fchmodat(dir, name, mode, 0) < 0 || listen(fd, 4096) < 0)
		goto err_close;
	return fd;

err_close:
	rc = errno;
	close(fd);
	errno = rc;
err_why:
	return mpib_why_fail(why, -errno,
			     "socket %s/%s: %s (give another --run-dir)", path,
			     name, strerror(errno));
}

int mpib_rundir_listen(struct mpib_rundir *rd, const char *name, int type,
		       char *why)
{
	return rundir_listen_in(rd->dir, rd->path, name, type, rd->gid, 0660,
				why);
}

/* Open the admin directory, which only its owner may enter. Returns the fd or
 * -errno. */
static int open_admin_dir(const char *path, char *why)
{
	struct stat st;
	int dir;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		goto err_why;
	dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		goto err_why;
	/* A container's volume, which has mode 0777 at first, gets 0700. */
	if (fstat(dir, &st) == 0 &&
	    (st.st_uid == geteuid() ? fchmod(dir, 0700) == 0
				    : st.st_uid == 0 && !(st.st_mode & 022)))
		return dir;
	close(dir);
	errno = EPERM;
err_why:
	return mpib_why_fail(why, -errno,
			     "admin directory %s: %s (create it with mode "
			     "0700, owned by the proxy's user)",
			     path, strerror(errno));
}

int mpib_rundir_listen_admin(const struct mpib_rundir *rd, char *why)
{
	char path[MPIB_ADMIN_PATH_MAX];
	int dir, fd;

	if (!mpib_admin_dir(rd->path, path, sizeof(path)))
		return mpib_why_fail(why, -ENAMETOOLONG,
				     "admin directory of %s: its path is too "
				     "long (give a shorter --run-dir)",
				     rd->path);
	dir = open_admin_dir(path, why);
	if (dir < 0)
		return dir;
	fd = rundir_listen_in(dir, path, MPIB_ADMIN_SOCK, SOCK_STREAM,
			      (gid_t)-1, 0600, why);
	close(dir);
	return fd;
}

/* Return whether `name`, relative to `dir`, is the file of fd. */
static bool is_same(int fd, int dir, const char *name)
{
	struct stat ours, there;

	return fstat(fd, &ours) == 0 &&
	       fstatat(dir, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

/* Return whether the directory and its lock file are still at their paths. */
static bool rundir_is_whole(const struct mpib_rundir *rd)
{
	return is_same(rd->dir, AT_FDCWD, rd->path) &&
	       is_same(rd->lock, rd->dir, LOCK);
}

/* Make the directory and its lock file again, and lock it. Returns 0 or -errno,
 * with -EBUSY if another proxy serves there now. On failure rd does not
 * change. */
static int rundir_renew(struct mpib_rundir *rd, const char *group, char *why)
{
	struct mpib_rundir again;
	int rc = mpib_rundir_open(&again, rd->path, group, why);

	if (rc < 0)
		return rc;
	rundir_release(rd);
	*rd = again;
	return 0;
}

#define ADMIN_SOCK_MAX (MPIB_ADMIN_PATH_MAX + 16)

/* Write the paths of the admin directory and of its socket. Returns false if
 * the run directory is gone. */
static bool admin_paths(const struct mpib_rundir *rd, char *dir, char *sock)
{
	if (!mpib_admin_dir(rd->path, dir, MPIB_ADMIN_PATH_MAX))
		return false;
	snprintf(sock, ADMIN_SOCK_MAX, "%s/" MPIB_ADMIN_SOCK, dir);
	return true;
}

void mpib_rundir_close(struct mpib_rundir *rd, const char *keep)
{
	char dir[MPIB_ADMIN_PATH_MAX], sock[ADMIN_SOCK_MAX];

	if (rd->dir < 0)
		return;
	/* If another directory has replaced this one, the proxy that made it
	 * also owns the admin directory. */
	if (is_same(rd->dir, AT_FDCWD, rd->path) &&
	    admin_paths(rd, dir, sock)) {
		unlink(sock);
		rmdir(dir);
	}
	rundir_clear(rd, keep);
	rundir_release(rd);
}

/* A socket that can be made again. */
struct proxy_socket {
	const char *name;
	struct mpib_acceptor *acceptor; /* NULL: the socket is not open */
	bool admin;
	int type;
};

int mpib_sockets_open(struct mpib_proxy *p, char *why)
{
	int given = mpib_activation_socket();

	p->activated = given >= 0;
	if (p->control < 0)
		p->control = given;
	if (p->control < 0)
		p->control = mpib_rundir_listen(&p->rundir, MPIB_CONTROL_SOCK,
						SOCK_SEQPACKET, why);
	if (p->control < 0)
		return p->control;
	p->stats_fd = mpib_rundir_listen(&p->rundir, MPIB_STATS_SOCK,
					 SOCK_STREAM, why);
	if (p->stats_fd < 0)
		return p->stats_fd;
	p->admin_fd = mpib_rundir_listen_admin(&p->rundir, why);
	if (p->admin_fd < 0)
		mpib_warn("%s; until then mpibctl cannot change anything", why);
	return 0;
}

/* Make a socket again. It keeps the number of its descriptor, since epoll and
 * other modules use that number. */
static int socket_renew(struct mpib_proxy *p, const struct proxy_socket *s,
			char *why)
{
	int fd = s->admin ? mpib_rundir_listen_admin(&p->rundir, why)
			  : mpib_rundir_listen(&p->rundir, s->name, s->type,
					       why);

	return fd < 0 ? fd : mpib_acceptor_renew(s->acceptor, fd);
}

static bool socket_exists(const struct mpib_rundir *rd,
			  const struct proxy_socket *s)
{
	char dir[MPIB_ADMIN_PATH_MAX], sock[ADMIN_SOCK_MAX];
	struct stat st;

	if (s->admin)
		return admin_paths(rd, dir, sock) && access(sock, F_OK) == 0;
	return fstatat(rd->dir, s->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void socket_check(struct mpib_proxy *p, const struct proxy_socket *s)
{
	char why[MPIB_WHY_MAX];
	int rc;

	if (!s->acceptor || socket_exists(&p->rundir, s))
		return;
	rc = socket_renew(p, s, why);
	if (rc < 0)
		mpib_warn("%s was removed and cannot be made again: %s",
			  s->name, why);
	else
		mpib_event(MPIB_LOG_WARN, "socket_renewed", NULL,
			   "%s was removed from %s and is made again (keep "
			   "cleaners of temporary files away from it)",
			   s->name, p->rundir.path);
}

/* Make the directory and its lock again if they were removed. Return false if
 * that failed. */
static bool check_directory(struct mpib_proxy *p)
{
	char why[MPIB_WHY_MAX];
	int rc;

	if (rundir_is_whole(&p->rundir))
		return true;
	rc = rundir_renew(&p->rundir, p->cfg.run_group, why);
	if (rc == 0)
		rc = mpib_rundir_write_pid(&p->rundir, getpid(), why);
	if (rc < 0)
		mpib_warn("the run directory was removed and cannot be made "
			  "again, so no process can attach: %s",
			  why);
	return rc == 0;
}

void mpib_sockets_check(struct mpib_proxy *p)
{
	const struct proxy_socket all[] = {
		/* If systemd made the socket, systemd owns it. */
		{ MPIB_CONTROL_SOCK, p->activated ? NULL : &p->clients.acceptor,
		  false, SOCK_SEQPACKET },
		{ MPIB_STATS_SOCK,
		  mpib_stats_acceptor(p->stats, MPIB_DOOR_STATS), false,
		  SOCK_STREAM },
		{ MPIB_ADMIN_SOCK,
		  mpib_stats_acceptor(p->stats, MPIB_DOOR_ADMIN), true,
		  SOCK_STREAM },
	};

	if (!check_directory(p))
		return;
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		socket_check(p, &all[i]);
}
