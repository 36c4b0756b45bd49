/* SPDX-License-Identifier: Apache-2.0 */
#include "trial.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node.h"
#include "test.h"

#define ARGS 40

void trial_init(struct trial *t)
{
	snprintf(t->base, sizeof(t->base), "/tmp/mpib-trial-XXXXXX");
	assert_non_null(mkdtemp(t->base));
	assert_int_equal(chmod(t->base, 0755), 0); /* other users come, too */
	snprintf(t->dir, sizeof(t->dir), "%s/run", t->base);
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *at)
{
	return remove(path);
}

/* Proxies that were killed leave theirs. */
void trial_fini(struct trial *t)
{
	nftw(t->base, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void exec_proxy(const struct trial *t, const char *const *args,
		       void (*prepare)(const void *), const void *arg)
{
	const char *argv[ARGS] = { "mpib-proxy" };
	char sout[32], sup[32];
	const char *own[] = { "--config",    "/dev/null", "--run-dir", t->dir,
			      "--log-level", "error",	  "--sout",    sout,
			      "--sup",	     sup,	  NULL };
	unsigned n = 1;

	node_rail(sout, sizeof(sout), 60);
	node_rail(sup, sizeof(sup), 61);
	for (const char *const *a = own; *a; a++)
		argv[n++] = *a;
	for (; *args && n + 1 < ARGS; args++)
		argv[n++] = *args;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (prepare)
		prepare(arg);
	execv(MPIB_PROXY_PATH, (char **)(uintptr_t)argv);
	_exit(127);
}

void trial_start(struct trial *t, const char *const *args,
		 void (*prepare)(const void *arg), const void *arg)
{
	char line[512] = "";
	int out[2], err[2];
	FILE *f;

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(pipe2(err, O_CLOEXEC), 0);
	t->pid = fork();
	assert_true(t->pid >= 0);
	if (t->pid == 0) {
		dup2(out[1], STDOUT_FILENO);
		dup2(err[1], STDERR_FILENO);
		exec_proxy(t, args, prepare, arg);
	}
	close(out[1]);
	close(err[1]);
	t->err = err[0];
	f = fdopen(out[0], "r");
	assert_non_null(f);
	t->ready = fgets(line, sizeof(line), f) && !strncmp(line, "ready ", 6);
	fclose(f);
}

/* It has ended. */
static void take_errors(const struct trial *t, char *text, size_t len)
{
	size_t have = 0;
	ssize_t n;

	while ((n = read(t->err, text + have, len - 1 - have)) > 0)
		have += (size_t)n;
	assert_true(n >= 0);
	text[have] = '\0';
	close(t->err);
}

void trial_end(struct trial *t, const char *what)
{
	unsigned long long since = node_ms();
	char text[4096];
	int status;

	if (t->ready)
		kill(t->pid, SIGTERM);
	while (waitpid(t->pid, &status, WNOHANG) == 0) {
		if (node_ms() - since > TRIAL_HANG_MS)
			fail_msg("%s: the proxy hangs", what);
		usleep(1000);
	}
	t->pid = 0;
	take_errors(t, text, sizeof(text));
	if (WIFSIGNALED(status))
		fail_msg("%s: the proxy died of signal %d: %s", what,
			 WTERMSIG(status), text);
	if (t->ready && WEXITSTATUS(status) != 0)
		fail_msg("%s: the proxy ended with %d: %s", what,
			 WEXITSTATUS(status), text);
	if (!t->ready &&
	    (WEXITSTATUS(status) == 0 || !strstr(text, "mpib-proxy: ")))
		fail_msg("%s: no reason: %d, \"%s\"", what, WEXITSTATUS(status),
			 text);
}
