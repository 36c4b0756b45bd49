/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpib-perf check HOST...: a verdict on each pair of servers. Pairs run in
 * rounds of which each host is in one pair, so that n hosts take n - 1 rounds;
 * a pair is a forked process with a hub of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/hosts/hosts.h"
#include "perf/hosts/hub.h"
#include "perf/hosts/verdict.h"
#include "perf/row.h"

#define LATENCY_BYTES 8
#define LATENCY_ITERS 500
#define SPEED_BYTES (4 << 20)
#define SPEED_SECONDS 1.0

/* Run a test of the two hosts. False after a line on stderr. */
static bool test_pair(const struct perf_options *opt, const char *const host[2],
		      struct perf_verdict *v, struct perf_row *row)
{
	struct perf_hub *h = perf_hub_new(opt);
	bool ok = h != NULL;

	if (h)
		h->quiet = true;
	for (int i = 0; ok && i < 2; i++) {
		int fd = perf_link_dial(host[i], opt->port, 0);

		ok = fd >= 0 && perf_hub_greet(h, fd, i) >= 0;
	}
	ok = ok && perf_hub_run(h) == 0;
	if (ok) {
		*row = perf_row_make(h->w, 0);
		v->wrong += row->wrong_messages;
		v->seconds = perf_world_seconds(h->w);
		for (int i = 0; i < 2; i++) {
			v->rails[i] = h->node[i].rails;
			v->speed_mbps[i] = h->node[i].info.speed;
		}
	}
	perf_hub_free(h);
	return ok;
}

/* Latency first, so that the rails that stay in *v are those of the speed. */
static void judge_pair(const struct perf_options *opt,
		       const char *const host[2], struct perf_verdict *v)
{
	struct perf_options latency = *opt, speed = *opt;
	struct perf_row row;

	latency.pattern = PERF_PINGPONG;
	latency.min = latency.max = LATENCY_BYTES;
	latency.steady_count = 0;
	latency.steady_seconds = 0;
	latency.iters = LATENCY_ITERS;
	latency.channels = 1;
	speed.pattern = PERF_SENDRECV;
	speed.min = speed.max = opt->max_given ? opt->max : SPEED_BYTES;
	if (!perf_is_steady(opt))
		speed.steady_seconds = SPEED_SECONDS;
	v->ran = test_pair(&latency, host, v, &row);
	if (!v->ran)
		return;
	v->p50_us = row.p50;
	v->p99_us = row.p99;
	v->ran = test_pair(&speed, host, v, &row);
	v->busbw = row.busbw;
}

/* The test of a pair in a process of its own, which writes its verdict to the
 * pipe. The pipe's end to read, or -1. */
static int fork_pair(const struct perf_options *opt, struct perf_verdict v)
{
	const char *const host[2] = { opt->hosts[v.host[0]],
				      opt->hosts[v.host[1]] };
	pid_t parent = getpid(), pid;
	int pipes[2];

	if (pipe2(pipes, O_CLOEXEC) < 0)
		return -1;
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != parent)
			_exit(1);
		judge_pair(opt, host, &v);
		_exit(write(pipes[1], &v, sizeof(v)) != sizeof(v));
	}
	close(pipes[1]);
	if (pid > 0)
		return pipes[0];
	perf_bad("check: no process: %s", strerror(errno));
	close(pipes[0]);
	return -1;
}

/* A verdict fits into a pipe whole, so one read has it or nothing. */
static void fetch(int fd, struct perf_verdict *v)
{
	struct perf_verdict got;

	_Static_assert(sizeof(got) <= PIPE_BUF, "a pipe takes it whole");
	if (fd >= 0 && read(fd, &got, sizeof(got)) == sizeof(got))
		*v = got;
	if (fd >= 0)
		close(fd);
}

/* Round-robin by the circle method: host 0 stays, the others turn. With an odd
 * number, who meets number n has a rest. */
static void pair_of(int n, int round, int k, int *a, int *b)
{
	int m = n + n % 2 - 1;

	*a = k == 0 ? m : (round + k) % m;
	*b = (round + m - k) % m;
}

/* Run one round, one pair after the other if serial. */
static struct perf_verdict *play(const struct perf_options *opt, int round,
				 struct perf_verdict *v)
{
	int n = opt->nhosts, fd[PERF_NODES_MAX], count = 0;

	for (int k = 0; k < (n + 1) / 2; k++) {
		int a, b;

		pair_of(n, round, k, &a, &b);
		if (a >= n || b >= n)
			continue;
		v[count].host[0] = a < b ? a : b;
		v[count].host[1] = a < b ? b : a;
		fd[count] = fork_pair(opt, v[count]);
		if (opt->serial)
			fetch(fd[count], &v[count]);
		count++;
	}
	for (int i = 0; !opt->serial && i < count; i++)
		fetch(fd[i], &v[i]);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	return v + count;
}

int perf_check(const struct perf_options *opt)
{
	int n = opt->nhosts, pairs = n * (n - 1) / 2, rc;
	struct perf_verdict *v = calloc((size_t)pairs, sizeof(*v)), *end = v;

	if (!v)
		return perf_bad("check: no memory for %d pairs", pairs) != 0;
	for (int round = 0; round < n + n % 2 - 1; round++) {
		end = play(opt, round, end);
		if (n > 2)
			fprintf(stderr, "check: %d of %d pairs\n",
				(int)(end - v), pairs);
	}
	rc = perf_verdict_report(opt, v, pairs);
	free(v);
	return rc;
}
