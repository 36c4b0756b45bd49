/* SPDX-License-Identifier: Apache-2.0 */
/* Starting the new proxy's process. */
#include "handover/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "handover/guard.h"

/* In the child: async-signal-safe calls only, since the parent has threads
 * (fork(2)). */
static void spawn_become(const struct mpib_spawn *how, char **argv, int sock)
	__attribute__((noreturn));

static void spawn_become(const struct mpib_spawn *how, char **argv, int sock)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (how->cwd >= 0 && fchdir(how->cwd) < 0)
		_exit(127);
	if (fcntl(sock, F_SETFD, 0) == 0)
		execv(how->path, argv);
	_exit(127);
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
	*pid = fork();
	if (*pid == 0)
		spawn_become(how, argv, pair[1]);
	if (*pid < 0)
		rc = -errno;
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
