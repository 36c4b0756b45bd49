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
#define PAIR_S 60 /* seconds for a device, besides the time of its tests */

/* Run a test of the two hosts. False after a line on stderr. */
static bool test_pair(const struct perf_options *opt, const char *const host[2],
		      struct perf_verdict *v, struct perf_row *row)
{
	struct perf_hub *h = perf_hub_new(opt);
	bool ok = h != NULL;

	if (h) {
		h->quiet = true;
		h->device = (uint32_t)v->device;
	}
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
			v->devices[i] = h->node[i].info.devices;
		}
	}
	perf_hub_free(h);
	return ok;
}

/* Latency first, so that *v keeps the rails of the test of speed. */
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

/* Test each device that both hosts have, and write its verdict to fd. */
static int judge_devices(const struct perf_options *opt,
			 const char *const host[2],
			 const struct perf_verdict *pair, int fd)
{
	int devices = 1;

	for (int i = 0; i < devices; i++) {
		struct perf_verdict v = *pair;

		v.device = i;
		/* A host that stops answering must not delay the others. */
		alarm(PAIR_S +
		      (unsigned)(2 * (opt->timeout + opt->steady_seconds)));
		judge_pair(opt, host, &v);
		if (v.ran)
			devices = v.devices[0] < v.devices[1] ? v.devices[0]
							      : v.devices[1];
		if (write(fd, &v, sizeof(v)) != sizeof(v))
			return 1;
	}
	return 0;
}

/* Run the tests of a pair in a process of its own, which writes its verdicts to
 * a pipe. Returns the pipe's end to read, or -1. */
static int fork_pair(const struct perf_options *opt,
		     const struct perf_verdict *v)
{
	const char *const host[2] = { opt->hosts[v->host[0]],
				      opt->hosts[v->host[1]] };
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
		_exit(judge_devices(opt, host, v, pipes[1]));
	}
	close(pipes[1]);
	if (pid > 0)
		return pipes[0];
	perf_bad("check: no process: %s", strerror(errno));
	close(pipes[0]);
	return -1;
}

/* Read the verdicts on a pair into v. If none came, write one that says that
 * the test failed. A write of a verdict to a pipe is atomic, so a read gets all
 * of it or nothing. Returns the end of the verdicts. */
static struct perf_verdict *fetch(int fd, const struct perf_verdict *pair,
				  struct perf_verdict *v)
{
	struct perf_verdict *first = v;

	_Static_assert(sizeof(*v) <= PIPE_BUF, "a pipe takes it whole");
	while (fd >= 0 && v - first < PERF_DEVICES_MAX &&
	       read(fd, v, sizeof(*v)) == sizeof(*v))
		v++;
	if (fd >= 0)
		close(fd);
	if (v == first)
		*v++ = *pair;
	return v;
}

/* Round-robin by the circle method: host 0 stays, the others rotate. With an
 * odd number of hosts, the partner of number n pauses. */
static void pair_of(int n, int round, int k, int *a, int *b)
{
	int m = n + n % 2 - 1;

	*a = k == 0 ? m : (round + k) % m;
	*b = (round + m - k) % m;
}

/* Run one round, one pair after the other if serial. Adds their number to
 * *pairs, and returns the end of the verdicts. */
static struct perf_verdict *play(const struct perf_options *opt, int round,
				 struct perf_verdict *v, int *pairs)
{
	struct perf_verdict pair[PERF_NODES_MAX];
	int n = opt->nhosts, fd[PERF_NODES_MAX], count = 0;

	for (int k = 0; k < (n + 1) / 2; k++) {
		int a, b;

		pair_of(n, round, k, &a, &b);
		if (a >= n || b >= n)
			continue;
		pair[count] = (struct perf_verdict){
			.host = { a < b ? a : b, a < b ? b : a },
			.device = -1,
		};
		fd[count] = fork_pair(opt, &pair[count]);
		if (opt->serial)
			v = fetch(fd[count], &pair[count], v);
		count++;
	}
	for (int i = 0; !opt->serial && i < count; i++)
		v = fetch(fd[i], &pair[i], v);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	*pairs += count;
	return v;
}

int perf_check(const struct perf_options *opt)
{
	int n = opt->nhosts, pairs = n * (n - 1) / 2, done = 0, rc;
	struct perf_verdict *v =
		calloc((size_t)pairs * PERF_DEVICES_MAX, sizeof(*v));
	struct perf_verdict *end = v;

	if (!v)
		return perf_bad("check: no memory for %d pairs", pairs) != 0;
	for (int round = 0; round < n + n % 2 - 1; round++) {
		end = play(opt, round, end, &done);
		if (n > 2)
			fprintf(stderr, "check: %d of %d pairs\n", done, pairs);
	}
	rc = perf_verdict_report(opt, v, (int)(end - v));
	free(v);
	return rc;
}
