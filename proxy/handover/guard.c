/* SPDX-License-Identifier: Apache-2.0 */
/* The guard's process, and the proxies' end of its link. */
#include "handover/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

int mpib_guard_link(int link[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link) < 0
		       ? -errno
		       : 0;
}

void mpib_guard_tell(int link, pid_t pid)
{
	if (link >= 0 && send(link, &pid, sizeof(pid),
			      MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(pid))
		mpib_warn("the process that started first does not hear who "
			  "serves: %m");
}

void mpib_guard_become(int link)
{
	char arg[32];
	char *argv[] = { program_invocation_short_name, arg, NULL };

	snprintf(arg, sizeof(arg), "--guard=%d", link);
	if (fcntl(link, F_SETFD, 0) == 0)
		execv("/proc/self/exe", argv);
}

struct guard {
	int link;
	pid_t serving; /* the proxy that serves; 0: not told yet */
	int stop; /* the stop signal that the guard has got; 0: none */
};

static void guard_tell(const struct guard *g, int signo)
{
	if (g->serving > 1 && g->serving != getpid())
		kill(g->serving, signo);
}

/* Read which process serves now. A proxy may have handed over just before the
 * stop signal reached it: pass the signal to its successor too. */
static void listen_to(struct guard *g)
{
	pid_t pid;

	while (recv(g->link, &pid, sizeof(pid), MSG_DONTWAIT) == sizeof(pid)) {
		if (pid == g->serving)
			continue;
		g->serving = pid;
		if (g->stop)
			guard_tell(g, g->stop);
	}
}

/* True when no child is left; *status is that of the proxy that served last.
 * Proxies that were replaced are children too, and so is one that was killed
 * before it served, if the one that started it ended first. */
static bool all_ended(struct guard *g, int *status)
{
	int how;
	pid_t pid;

	while ((pid = waitpid(-1, &how, WNOHANG)) > 0) {
		/* A proxy may have told of itself just before it ended. */
		listen_to(g);
		if (g->serving && pid != g->serving)
			continue;
		*status =
			WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
	}
	return pid < 0 && errno == ECHILD;
}

int mpib_guard_run(int link)
{
	struct guard g = { .link = link };
	int status = EXIT_FAILURE;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGHUP, SIG_IGN);
	/* First reap: children that ended before SIGCHLD was blocked. */
	while (!all_ended(&g, &status)) {
		siginfo_t info;
		bool stop;

		listen_to(&g);
		if (sigwaitinfo(&set, &info) < 0)
			continue;
		listen_to(&g);
		if (info.si_signo == SIGCHLD)
			continue;
		stop = info.si_signo != SIGUSR2;
		if (stop)
			g.stop = info.si_signo;
		guard_tell(&g, info.si_signo);
	}
	return status;
}
