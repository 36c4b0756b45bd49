/* SPDX-License-Identifier: Apache-2.0 */
/* Forking ranks and waiting for them. */
#include "perf/ranks.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
	pid_t pid; /* 0: it ended */
	int rank;
} child[PERF_RANKS_MAX];
static int children;

int perf_ranks_start(struct perf_world *w)
{
	pid_t parent = getpid();

	/* Flush first: a rank must not write this process's pending output. */
	fflush(stdout);
	children = 0;
	for (int i = 0; i < w->opt.nranks; i++) {
		pid_t pid;

		if (w->node >= 0 && perf_rank_node(&w->opt, i) != w->node)
			continue;
		pid = fork();
		if (pid < 0)
			return perf_bad(
				"rank %d: it does not start: %s (run fewer)", i,
				strerror(errno));
		if (pid == 0) {
			/* The kernel ends this rank if the parent ends. */
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != parent)
				_exit(1);
			signal(SIGINT, SIG_IGN);
			exit(perf_rank_main(w, i));
		}
		child[children].rank = i;
		child[children++].pid = pid;
	}
	return 0;
}

void perf_ranks_kill(void)
{
	for (int i = 0; i < children; i++) {
		if (child[i].pid)
			kill(child[i].pid, SIGKILL);
	}
}

/* Return the rank with this pid, and forget that child; -1: none. */
static int ended(pid_t pid)
{
	for (int i = 0; i < children; i++) {
		if (child[i].pid != pid)
			continue;
		child[i].pid = 0;
		return child[i].rank;
	}
	return -1;
}

static int still_run(void)
{
	int n = 0;

	for (int i = 0; i < children; i++)
		n += child[i].pid != 0;
	return n;
}

int perf_ranks_reap(struct perf_world *w, bool all)
{
	int status, rank;
	pid_t pid;

	while (still_run() > 0) {
		pid = waitpid(-1, &status, all ? 0 : WNOHANG);
		if (pid < 0 && errno == EINTR)
			continue;
		if (pid <= 0)
			break;
		rank = ended(pid);
		if (rank < 0 || (WIFEXITED(status) && !WEXITSTATUS(status)))
			continue;
		if (WIFSIGNALED(status))
			perf_world_fail(w, rank, "died of signal %d (%s)",
					WTERMSIG(status),
					strsignal(WTERMSIG(status)));
		else
			perf_world_fail(w, rank,
					"it gave up (its last line says why)");
	}
	return still_run();
}
