/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failures [POINTS]: let the n-th allocation or system call of a proxy fail
 * while clients attach, connect, transfer and close. Test POINTS values of n,
 * spread over all calls; 0 means every n. Either the proxy prints one line and
 * does not start, or it serves clients. In both cases, the proxy must not crash
 * or hang. A proxy that serves clients must report each failure with a reason
 * and serve the next client.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mover.h"
#include "node.h"
#include "scratch.h"
#include "test.h"

#define HANG_MS 60000

/* The tested proxy, which may refuse to start. */
struct trial {
	char dir[80]; /* its run directory */
	pid_t pid;
	int err; /* a pipe from its stderr */
	bool ready; /* the proxy serves */
};

static struct node good;
static struct trial trial;
static char count[80];
static unsigned points = 30;

static void exec_proxy(const char *fail_at)
{
	char sout[32], sup[32];
	const char *argv[] = { "mpib-proxy", "--config", "/dev/null",
			       "--run-dir",  trial.dir,	 "--log-level",
			       "error",	     "--sout",	 sout,
			       "--sup",	     sup,	 NULL };

	node_rail(sout, sizeof(sout), 60);
	node_rail(sup, sizeof(sup), 61);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setenv("LD_PRELOAD", MPIB_FAILING_PATH, 1);
	setenv("MPIB_FAIL_AT", fail_at, 1);
	setenv("MPIB_FAIL_COUNT", count, 1);
	execv(MPIB_PROXY_PATH, (char **)(uintptr_t)argv);
	_exit(127);
}

/* Start the proxy, and wait until it serves or has ended. */
static void trial_start(const char *fail_at)
{
	char line[512] = "";
	int out[2], err[2];
	FILE *f;

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(pipe2(err, O_CLOEXEC), 0);
	trial.pid = fork();
	assert_true(trial.pid >= 0);
	if (trial.pid == 0) {
		dup2(out[1], STDOUT_FILENO);
		dup2(err[1], STDERR_FILENO);
		exec_proxy(fail_at);
	}
	close(out[1]);
	close(err[1]);
	trial.err = err[0];
	f = fdopen(out[0], "r");
	assert_non_null(f);
	trial.ready =
		fgets(line, sizeof(line), f) && !strncmp(line, "ready ", 6);
	fclose(f);
}

/* Read what the proxy wrote to stderr before it ended. */
static void take_errors(char *text, size_t len)
{
	size_t have = 0;
	ssize_t n;

	while ((n = read(trial.err, text + have, len - 1 - have)) > 0)
		have += (size_t)n;
	assert_true(n >= 0);
	text[have] = '\0';
	close(trial.err);
}

static void trial_end(unsigned long n)
{
	unsigned long long since = node_ms();
	char text[4096];
	int status;

	if (trial.ready)
		kill(trial.pid, SIGTERM);
	while (waitpid(trial.pid, &status, WNOHANG) == 0) {
		if (node_ms() - since > HANG_MS)
			fail_msg("point %lu: the proxy hangs", n);
		usleep(1000);
	}
	trial.pid = 0;
	take_errors(text, sizeof(text));
	if (WIFSIGNALED(status))
		fail_msg("point %lu: the proxy died of signal %d: %s", n,
			 WTERMSIG(status), text);
	if (trial.ready && WEXITSTATUS(status) != 0)
		fail_msg("point %lu: the proxy ended with %d: %s", n,
			 WEXITSTATUS(status), text);
	if (!trial.ready &&
	    (WEXITSTATUS(status) == 0 || !strstr(text, "mpib-proxy: ")))
		fail_msg("point %lu: no reason: %d, \"%s\"", n,
			 WEXITSTATUS(status), text);
}

/* Attach, connect, transfer and close. Returns 0 or the first error. */
static int go(unsigned long n, const char *from, const char *to, bool direct)
{
	struct mover m;
	int rc = mover_begin(&m, from, to, 100000, direct, n);

	if (rc == 0)
		rc = mover_move(&m, 4);
	if (rc == -ETIME)
		fail_msg("point %lu: %s", n, mover_why(rc));
	if (rc < 0 && strlen(mpib_strerror()) < 15)
		fail_msg("point %lu: error %d has only the text \"%s\"", n, rc,
			 mpib_strerror());
	assert_int_equal(m.wrong, 0);
	mover_close(&m);
	return rc;
}

static int all_ways(unsigned long n)
{
	int rc = go(n, trial.dir, good.dir, false);

	if (rc == 0)
		rc = go(n, good.dir, trial.dir, true);
	if (rc == 0)
		rc = go(n, trial.dir, trial.dir, true);
	return rc;
}

/* Return the outcome of point n. 0 means that the proxy refused to start, 1
 * that a call of a client failed, and 2 that no call failed. */
static unsigned try(unsigned long n)
{
	char at[32];
	int rc = 0;

	snprintf(at, sizeof(at), "%lu", n);
	trial_start(at);
	if (trial.ready) {
		rc = all_ways(n);
		/* Only one call fails, so a second try must succeed. */
		if (rc < 0 && all_ways(n) < 0)
			fail_msg("point %lu: no client is served any more: %s",
				 n, mpib_strerror());
	}
	trial_end(n);
	node_until_usage(&good, "attached", 0);
	return !trial.ready ? 0 : rc < 0 ? 1 : 2;
}

static unsigned long calls_of_a_run(void)
{
	unsigned long n;
	FILE *f;

	assert_int_equal(try(0), 2);
	f = fopen(count, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu", &n), 1);
	fclose(f);
	return n;
}

TEST_OF(every_failure_of_a_call_is_reported_and_survived, scratch_make,
	scratch_remove)
{
	unsigned tally[3] = { 0 };
	unsigned long total, step, n;

	snprintf(trial.dir, sizeof(trial.dir), "%s", scratch_path("run"));
	snprintf(count, sizeof(count), "%s", scratch_path("count"));
	node_start(&good, 7, "--log-level", "error", NULL);
	total = calls_of_a_run();
	assert_true(total > 100);
	step = points ? total / points + 1 : 1;
	/* Start at a different offset in each run. */
	for (n = 1 + (unsigned long)getpid() % step; n <= total; n += step)
		tally[try(n)]++;
	node_stop(&good);
	printf("%u of %lu points: the proxy refused to start at %u, reported an error "
	       "to a client at %u, and no call failed at %u; 0 crashes, 0 hangs\n",
	       tally[0] + tally[1] + tally[2], total, tally[0], tally[1],
	       tally[2]);
}

unsigned *test_times = &points;
