/* SPDX-License-Identifier: Apache-2.0 */
#include "handover/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

void mpib_guard_become(const char *run_dir, int pipe)
{
	char arg[128];
	char *argv[] = { program_invocation_short_name, arg, NULL };

	snprintf(arg, sizeof(arg), "--guard=%s", run_dir);
	if (fcntl(pipe, F_SETFD, 0) == 0)
		execv("/proc/self/exe", argv);
}

/* Who serves, by proxy.pid; 0: nobody says so. */
static pid_t serving(const char *run_dir)
{
	char path[128], text[16] = "";
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/proxy.pid", run_dir);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	return n > 0 ? (pid_t)strtol(text, NULL, 10) : 0;
}

/* Of whichever ended last: proxies that were replaced end, too. */
static bool all_ended(int *status)
{
	int how;
	pid_t pid;

	while ((pid = waitpid(-1, &how, WNOHANG)) > 0)
		*status =
			WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
	return pid < 0 && errno == ECHILD;
}

int mpib_guard_run(const char *run_dir)
{
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
	/* Those that ended before the mask was set sent no signal. */
	while (!all_ended(&status)) {
		siginfo_t info;
		pid_t pid;

		if (sigwaitinfo(&set, &info) < 0 || info.si_signo == SIGCHLD)
			continue;
		pid = serving(run_dir);
		if (pid > 1 && pid != getpid())
			kill(pid, info.si_signo);
	}
	return status;
}
