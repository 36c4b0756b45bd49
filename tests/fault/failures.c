/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failures [POINTS]: a proxy whose n-th allocation or system call fails, for
 * POINTS values of n spread over all there are in attach, connect, transfer
 * and close; 0: for every one. It refuses to start in one line, or serves: no
 * crash, no hang, every failure told in words; and the next client is served.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "arg.h"
#include "mover.h"
#include "node.h"

#define HANG_MS 60000

static struct node good;
static char base[] = "/tmp/mpib-failures-XXXXXX";
static char dir[64], count[64], err[64];
static unsigned points = 30;

static void exec_proxy(unsigned long fail_at)
{
	char at[32], sout[32], sup[32];
	int fd = open(err, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	snprintf(at, sizeof(at), "%lu", fail_at);
	node_rail(sout, sizeof(sout), 60);
	node_rail(sup, sizeof(sup), 61);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(fd, STDERR_FILENO);
	setenv("LD_PRELOAD", MPIB_FAILING_PATH, 1);
	setenv("MPIB_FAIL_AT", at, 1);
	setenv("MPIB_FAIL_COUNT", count, 1);
	execl(MPIB_PROXY_PATH, "mpib-proxy", "--config", "/dev/null",
	      "--run-dir", dir, "--log-level", "error", "--sout", sout, "--sup",
	      sup, NULL);
	_exit(127);
}

/* Its pid; *ready when it came up. */
static pid_t start(unsigned long fail_at, bool *ready)
{
	char line[512] = "";
	int out[2];
	pid_t pid;
	FILE *f;

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(out[1], STDOUT_FILENO);
		exec_proxy(fail_at);
	}
	close(out[1]);
	f = fdopen(out[0], "r");
	assert_non_null(f);
	*ready = fgets(line, sizeof(line), f) && !strncmp(line, "ready ", 6);
	fclose(f);
	return pid;
}

static void take_errors(char *text, size_t len)
{
	int fd = open(err, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, len - 1);

	assert_true(n >= 0);
	text[n] = '\0';
	close(fd);
}

static void expect_end(unsigned long n, pid_t pid, bool was_ready)
{
	unsigned long long since = node_ms();
	char text[4096];
	int status;

	if (was_ready)
		kill(pid, SIGTERM);
	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (node_ms() - since > HANG_MS)
			fail_msg("point %lu: the proxy hangs", n);
		usleep(1000);
	}
	take_errors(text, sizeof(text));
	if (WIFSIGNALED(status))
		fail_msg("point %lu: the proxy died of signal %d: %s", n,
			 WTERMSIG(status), text);
	if (was_ready && WEXITSTATUS(status) != 0)
		fail_msg("point %lu: the proxy ended with %d: %s", n,
			 WEXITSTATUS(status), text);
	if (!was_ready &&
	    (WEXITSTATUS(status) == 0 || !strstr(text, "mpib-proxy: ")))
		fail_msg("point %lu: no reason: %d, \"%s\"", n,
			 WEXITSTATUS(status), text);
}

/* Attach, connect, transfer, close, one way. 0 or the first failure. */
static int go(unsigned long n, const char *from, const char *to, bool direct)
{
	unsigned long long since = node_ms();
	struct mover m;
	int rc = mover_open(&m, from, to, 100000, direct, n);

	while (rc == 0 && (rc = mover_ready(&m)) == 0) {
		if (node_ms() - since > HANG_MS)
			fail_msg("point %lu: a connect hangs", n);
		usleep(50);
	}
	while (rc >= 0 && m.messages < 4) {
		rc = mover_step(&m);
		if (node_ms() - since > HANG_MS)
			fail_msg("point %lu: a message hangs", n);
	}
	if (rc < 0 && strlen(mpib_strerror()) < 15)
		fail_msg("point %lu: error %d says only \"%s\"", n, rc,
			 mpib_strerror());
	assert_int_equal(m.wrong, 0);
	mover_close(&m);
	return rc < 0 ? rc : 0;
}

static int all_ways(unsigned long n)
{
	int rc = go(n, dir, good.dir, false);

	if (rc == 0)
		rc = go(n, good.dir, dir, true);
	if (rc == 0)
		rc = go(n, dir, dir, true);
	return rc;
}

/* How it went at point n: 0 refused to start, 1 something failed, 2 nothing
 * did. */
static unsigned try(unsigned long n)
{
	bool ready;
	pid_t pid = start(n, &ready);
	int rc = 0;

	if (ready) {
		rc = all_ways(n);
		/* Once more, for whatever does not happen twice. */
		if (rc < 0 && all_ways(n) < 0)
			fail_msg("point %lu: no client is served any more: %s",
				 n, mpib_strerror());
	}
	expect_end(n, pid, ready);
	node_until_usage(&good, "attached", 0);
	return !ready ? 0 : rc < 0 ? 1 : 2;
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

static void every_failure_is_told_and_survived(void **state)
{
	unsigned tally[3] = { 0 };
	unsigned long total, step, n;

	(void)state;
	assert_non_null(mkdtemp(base));
	snprintf(dir, sizeof(dir), "%s/run", base);
	snprintf(count, sizeof(count), "%s/count", base);
	snprintf(err, sizeof(err), "%s/err", base);
	node_start(&good, 7, "--log-level", "error", NULL);
	total = calls_of_a_run();
	assert_true(total > 100);
	step = points ? total / points + 1 : 1;
	/* Another offset each time, so that all are met some day. */
	for (n = 1 + (unsigned long)getpid() % step; n <= total; n += step)
		tally[try(n)]++;
	node_stop(&good);
	unlink(count);
	unlink(err);
	rmdir(base);
	printf("%u of %lu points: %u refused to start, %u told a client, %u "
	       "did no harm; 0 crashes, 0 hangs\n",
	       tally[0] + tally[1] + tally[2], total, tally[0], tally[1],
	       tally[2]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_failure_is_told_and_survived),
	};

	if (argc > 1)
		points = arg_count(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
