/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start a proxy if none answers: MPIB_START names the program. Of the processes
 * that find none in a run directory, the holder of a lock file there starts it;
 * the others wait.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/run_dir.h"
#include "ipc/client.h"

#define LOOK_MS 10

/* A process of its own session, see --daemon, with nothing of this one's terminal and
 * signals. */
static int start_spawn(const char *program, char *dir, pid_t *pid)
{
	char name[] = "mpib-proxy", daemon[] = "--daemon", at[] = "--run-dir";
	char *argv[] = { name, daemon, at, dir, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t set;
	int rc;

	posix_spawn_file_actions_init(&files);
	for (int fd = 0; fd < 3; fd++)
		posix_spawn_file_actions_addopen(&files, fd, "/dev/null",
						 O_RDWR, 0);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK |
						POSIX_SPAWN_SETSIGDEF);
	sigemptyset(&set);
	posix_spawnattr_setsigmask(&attr, &set);
	sigfillset(&set);
	posix_spawnattr_setsigdefault(&attr, &set);
	rc = posix_spawnp(pid, program, &files, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return -rc;
}

/* Wait until the daemon is ready, at most until deadline. The program may wait for any
 * child of its own, and so for this one. A daemon that is late keeps running: other
 * ranks may still wait for it. */
static int start_wait(const struct mpib_client *c, const char *dir, pid_t pid,
		      uint64_t deadline)
{
	struct pollfd stop = { .fd = c->helper.stop, .events = POLLIN };
	int status = 0;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (poll(&stop, 1, LOOK_MS) > 0)
			return -ENOEXEC; /* the client detaches */
		if (mpib_now_ms() >= deadline)
			return mpib_fail(
				-ENOEXEC,
				"%s --daemon --run-dir %s, which MPIB_START "
				"names, is not ready yet (see the log of "
				"mpib-proxy, or run it in the foreground)",
				c->start, dir);
	}
	if (status != 0)
		return mpib_fail(-ENOEXEC,
				 "%s --daemon --run-dir %s, which MPIB_START "
				 "names, ended with status %d (call it by hand "
				 "to see why)",
				 c->start, dir,
				 WIFEXITED(status) ? WEXITSTATUS(status)
						   : 128 + WTERMSIG(status));
	return 0;
}

static int start_locked(const struct mpib_client *c, char *dir,
			uint64_t deadline)
{
	pid_t pid;
	int rc = start_spawn(c->start, dir, &pid);

	if (rc < 0)
		return mpib_fail(-ENOEXEC,
				 "%s, which MPIB_START names: %s (give "
				 "mpib-proxy, or its path)",
				 c->start, mpib_errtext(rc));
	return start_wait(c, dir, pid, deadline);
}

int mpib_start_proxy(const struct mpib_client *c, uint64_t deadline)
{
	char dir[sizeof(c->path)];
	int at, lock, rc;

	memcpy(dir, c->path, sizeof(dir));
	*strrchr(dir, '/') = '\0';
	mkdir(dir, 0750);
	at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	rc = at < 0 ? -errno : mpib_lockfile_take(at, "starting", &lock);
	if (at >= 0)
		close(at);
	if (rc == 0)
		rc = start_locked(c, dir, deadline);
	else if (rc != -EBUSY)
		rc = mpib_fail(-ENOEXEC,
			       "no proxy can be started in %s: %s (set "
			       "MPIB_RUN_DIR to a directory of this user)",
			       dir, mpib_errtext(rc));
	if (at >= 0 && lock >= 0)
		close(lock);
	return rc;
}
