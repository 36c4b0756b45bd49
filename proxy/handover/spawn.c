/* SPDX-License-Identifier: Apache-2.0 */
/* Starting the new proxy's process. */
#include "handover/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/thread.h"
#include "handover/guard.h"

/* Descriptors that the new process has, too, until it executes its program: a word of
 * their bits, which is the least that the kernel copies. */
#define LOW 64
#define MANY 1024 /* of which so many can be spared */

static int null = -1;
static int slot = -1; /* below LOW, for the new process's socket */

void mpib_spawn_reserve(void)
{
	struct rlimit files;
	int fd;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_max < MANY)
		return;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (null >= 0 && (fd = fcntl(null, F_DUPFD_CLOEXEC, 0)) >= 0) {
		if (fd >= LOW) {
			close(fd);
			return;
		}
		slot = fd;
	}
}

static char **make_argv(const struct mpib_spawn *how, char *takeover)
{
	unsigned n = 0;
	char **argv;

	while (how->argv[n])
		n++;
	argv = calloc(n + 2, sizeof(*argv));
	if (!argv)
		return NULL;
	argv[0] = how->argv[0];
	argv[1] = takeover;
	memcpy(argv + 2, how->argv + 1, (n - 1) * sizeof(*argv));
	return argv;
}

/* By posix_spawn(), which copies no page of this process. After a fork() the
 * child would share pages that HCAs write to, and on kernels before 5.12 the
 * first write of either process takes them away from the HCA. */
static int spawn_one(const struct mpib_spawn *how, char **argv, int sock,
		     pid_t *pid)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none;
	int rc = posix_spawn_file_actions_init(&files);

	if (rc)
		return -rc;
	rc = posix_spawnattr_init(&attr);
	if (rc)
		goto out_files;
	sigemptyset(&none);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	if (how->cwd >= 0)
		rc = posix_spawn_file_actions_addfchdir_np(&files, how->cwd);
	/* Onto itself: the new process gets it without FD_CLOEXEC. */
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(&files, sock, sock);
	if (rc == 0)
		rc = posix_spawn(pid, how->path, &files, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
out_files:
	posix_spawn_file_actions_destroy(&files);
	return -rc;
}

struct spawning {
	const struct mpib_spawn *how;
	char **argv;
	int sock;
	pid_t *pid;
	int rc;
};

/* A thread with descriptors of its own: those below LOW. */
static void *spawn_apart(void *arg)
{
	struct spawning *s = arg;

	close_range(LOW, ~0u, CLOSE_RANGE_UNSHARE);
	s->rc = spawn_one(s->how, s->argv, s->sock, s->pid);
	return NULL;
}

/* The new process would close copies of what users sent, and their owners can make
 * each close of a copy last. So it gets none. */
static int spawn_without_copies(struct spawning *s)
{
	pthread_t thread;
	int rc = mpib_thread_create(&thread, spawn_apart, s);

	if (rc < 0)
		return rc;
	pthread_join(thread, NULL);
	return s->rc;
}

int mpib_spawn(const struct mpib_spawn *how, int *sock, pid_t *pid)
{
	const bool spared = slot >= 0 && how->cwd < LOW;
	struct spawning s = { .how = how, .pid = pid };
	char takeover[32];
	int pair[2], rc = 0;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	s.sock = spared ? dup3(pair[1], slot, O_CLOEXEC) : pair[1];
	snprintf(takeover, sizeof(takeover), "--takeover=%d", s.sock);
	s.argv = make_argv(how, takeover);
	if (!s.argv) {
		rc = -ENOMEM;
		goto out_pair;
	}
	rc = spared ? spawn_without_copies(&s)
		    : spawn_one(how, s.argv, s.sock, pid);
	free(s.argv);
out_pair:
	if (spared)
		dup3(null, slot, O_CLOEXEC);
	close(pair[1]);
	if (rc < 0)
		close(pair[0]);
	else
		*sock = pair[0];
	return rc;
}

int mpib_spawn_guard(int inherited, bool daemon, int *link)
{
	if (inherited >= 0 || link[0] >= 0 || daemon || getenv("NOTIFY_SOCKET"))
		return 0;
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return -errno;
	return mpib_guard_link(link);
}
