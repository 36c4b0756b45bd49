/* SPDX-License-Identifier: Apache-2.0 */
/* Starting the new proxy's process. */
#include "handover/spawn.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "handover/guard.h"

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

int mpib_spawn(const struct mpib_spawn *how, int *sock, pid_t *pid)
{
	char takeover[32], **argv;
	int pair[2], rc = 0;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	snprintf(takeover, sizeof(takeover), "--takeover=%d", pair[1]);
	argv = make_argv(how, takeover);
	if (!argv) {
		rc = -ENOMEM;
		goto out_pair;
	}
	rc = spawn_one(how, argv, pair[1], pid);
	free(argv);
out_pair:
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
