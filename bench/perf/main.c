/* SPDX-License-Identifier: Apache-2.0 */
/* mpib-perf: forks the ranks and waits for them. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/world.h"

static pid_t child[PERF_RANKS_MAX];
static int children;
static struct perf_world *world;

static void kill_all(int sig)
{
	for (int i = 0; i < children; i++)
		kill(child[i], SIGKILL);
	if (sig)
		_exit(128 + sig);
}

/* SIGINT ends a steady run, whose figures so far are then reported. */
static void interrupted(int sig)
{
	if (!(world->opt.steady_seconds > 0) ||
	    atomic_exchange(&world->enough, true))
		kill_all(sig);
}

static int start(struct perf_world *w)
{
	pid_t parent = getpid();

	for (int i = 0; i < w->opt.nranks; i++) {
		pid_t pid = fork();

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
		child[children++] = pid;
	}
	return 0;
}

static int rank_of(pid_t pid)
{
	for (int i = 0; i < children; i++) {
		if (child[i] == pid)
			return i;
	}
	return -1;
}

/* Wait for all ranks. True when every rank ended with 0. */
static bool wait_all(struct perf_world *w)
{
	bool ok = true;
	int status;
	pid_t pid;

	for (int left = children; left > 0; left--) {
		pid = wait(&status);
		if (pid < 0)
			break;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			continue;
		ok = false;
		if (WIFSIGNALED(status))
			perf_world_fail(w, rank_of(pid),
					"died of signal %d "
					"(%s)",
					WTERMSIG(status),
					strsignal(WTERMSIG(status)));
		else
			perf_world_fail(w, rank_of(pid),
					"it gave up (its last line says why)");
	}
	return ok;
}

int main(int argc, char **argv)
{
	struct perf_options opt;
	struct perf_world *w;
	bool ok;

	switch (perf_options_parse(&opt, argc, argv)) {
	case PERF_PARSE_EXIT:
		return 0;
	case PERF_PARSE_BAD:
		return 2;
	case PERF_PARSE_RUN:
		break;
	}
	w = perf_world_new(&opt);
	if (!w)
		return 1;
	world = w;
	signal(SIGINT, interrupted);
	signal(SIGTERM, kill_all);
	if (start(w) < 0) {
		kill_all(0);
		return 1;
	}
	ok = wait_all(w);
	ok = ok && perf_report(w);
	perf_options_free(&opt);
	return ok ? 0 : 1;
}
