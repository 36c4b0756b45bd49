/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpib-perf check HOST...: test each pair of servers. Pairs are tested in
 * rounds. In a round each host is in one pair, so that n hosts need n - 1
 * rounds. Each pair is tested by a forked process with its own hub.
 */
#include "perf/hosts/hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "perf/report.h"

/* A pair is slow if its speed is below this part of the expected speed, or of
 * the median of the pairs. */
#define ENOUGH 0.7
/* A rail is idle if it moved less than this part of its share. */
#define IDLE 0.1

struct list {
	char (*text)[PERF_FAULT_LEN];
	int n, max;
};

static void add(struct list *list, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void add(struct list *list, const char *fmt, ...)
{
	va_list ap;

	if (list->n == list->max)
		return;
	va_start(ap, fmt);
	vsnprintf(list->text[list->n++], PERF_FAULT_LEN, fmt, ap);
	va_end(ap);
}

static double rails_speed(const struct perf_rails *rails)
{
	double sum = 0;

	for (int i = 0; i < rails->n; i++) {
		if (rails->rail[i].soft)
			return 0;
		if (!rails->rail[i].standby)
			sum += (double)rails->rail[i].speed_mbps / 8e3;
	}
	return sum;
}

/* Return the rate in GB/s that a pair should reach in each direction. The rate
 * comes from --expect or from the rails' speed. 0 means unknown, as with
 * software rails. */
static double expected_of(const struct perf_options *opt,
			  const struct perf_verdict *v)
{
	double least = 0;

	if (opt->expect >= 0)
		return opt->expect;
	for (int i = 0; i < 2; i++) {
		double speed = v->rails[i].n ? rails_speed(&v->rails[i])
					     : v->speed_mbps[i] / 8e3;

		if (speed <= 0)
			return 0;
		if (i == 0 || speed < least)
			least = speed;
	}
	return least;
}

static void judge_rails(const struct perf_options *opt,
			const struct perf_verdict *v, int side,
			struct list *list)
{
	const struct perf_rails *rails = &v->rails[side];
	const char *host = opt->hosts[v->host[side]];
	double all = 0;

	for (int i = 0; i < rails->n; i++)
		all += (double)rails->rail[i].tx_bytes;
	for (int i = 0; i < rails->n; i++) {
		const char *name = rails->rail[i].name;

		if (!rails->rail[i].up)
			add(list, "%s: rail %s (%s) is down", host, name,
			    rails->rail[i].device);
		else if (rails->n > 1 && all > 0 && !rails->rail[i].soft &&
			 !rails->rail[i].standby &&
			 (double)rails->rail[i].tx_bytes <
				 IDLE * all / rails->n)
			add(list, "%s: rail %s (%s) is almost idle", host, name,
			    rails->rail[i].device);
		if (rails->rail[i].errors)
			add(list,
			    "%s: rail %s (%s): %llu errors, retries or fail-overs during the test",
			    host, name, rails->rail[i].device,
			    (unsigned long long)rails->rail[i].errors);
	}
}

int perf_verdict_faults(const struct perf_options *opt,
			const struct perf_verdict *v, double median,
			char text[][PERF_FAULT_LEN], int max)
{
	struct list list = { .text = text, .max = max };
	double expected = expected_of(opt, v);

	if (!v->ran) {
		add(&list, "the test failed: %s",
		    v->why[0] ? v->why : "it did not end in time");
		return list.n;
	}
	if (v->device == 0 && v->devices[0] != v->devices[1])
		add(&list,
		    "%s has %d devices and %s %d: the others are not tested",
		    opt->hosts[v->host[0]], v->devices[0],
		    opt->hosts[v->host[1]], v->devices[1]);
	if (v->wrong)
		add(&list, "%llu messages were wrong",
		    (unsigned long long)v->wrong);
	if (expected > 0 && v->busbw < ENOUGH * expected)
		add(&list, "%.2f GB/s is %.0f %% of the %.2f GB/s expected",
		    v->busbw, 100 * v->busbw / expected, expected);
	if (opt->expect != 0 && median > 0 && v->busbw < ENOUGH * median)
		add(&list, "%.2f GB/s is %.0f %% of the median of all pairs",
		    v->busbw, 100 * v->busbw / median);
	for (int side = 0; side < 2; side++)
		judge_rails(opt, v, side, &list);
	return list.n;
}

#define FAULTS_MAX 24

static int by_busbw(const void *a, const void *b)
{
	const struct perf_verdict *x = a, *y = b;

	return (x->busbw > y->busbw) - (x->busbw < y->busbw);
}

/* Set median[d] to the median busbw of the completed tests of device `d`, or to
 * 0 if fewer than three tests have completed. */
static void set_medians(const struct perf_verdict *v, int n,
			double median[PERF_DEVICES_MAX])
{
	struct perf_verdict *sorted = calloc((size_t)n + 1, sizeof(*sorted));

	for (int d = 0; d < PERF_DEVICES_MAX; d++) {
		int ran = 0;

		median[d] = 0;
		for (int i = 0; sorted && i < n; i++) {
			if (v[i].ran && v[i].device == d)
				sorted[ran++] = v[i];
		}
		if (ran < 3)
			continue;
		qsort(sorted, (size_t)ran, sizeof(*sorted), by_busbw);
		median[d] = sorted[ran / 2].busbw;
	}
	free(sorted);
}

static double median_for(const struct perf_verdict *v,
			 const double median[PERF_DEVICES_MAX])
{
	return v->device < 0 ? 0 : median[v->device];
}

static void print_rails(const struct perf_verdict *v)
{
	for (int side = 0; side < 2; side++) {
		const struct perf_rails *rails = &v->rails[side];

		for (int i = 0; i < rails->n && v->seconds > 0; i++)
			printf(" %s%s %.1f", side && i == 0 ? "| " : "",
			       rails->rail[i].name,
			       (double)rails->rail[i].tx_bytes * 8e-9 /
				       v->seconds);
	}
}

static void print_pair(const struct perf_options *opt,
		       const struct perf_verdict *v, int width, bool good)
{
	double expected = expected_of(opt, v);

	printf("%-*s  %-*s  %3d  ", width, opt->hosts[v->host[0]], width,
	       opt->hosts[v->host[1]], v->device < 0 ? 0 : v->device);
	if (!v->ran) {
		printf("%-4s\n", "FAIL");
		return;
	}
	printf("%-4s  %-5s %8.2f %8.2f %8.3f", good ? "ok" : "FAIL",
	       v->wrong ? "wrong" : "right", v->p50_us, v->p99_us, v->busbw);
	if (expected > 0)
		printf(" %7.0f%%", 100 * v->busbw / expected);
	else
		printf(" %8s", "-");
	print_rails(v);
	printf("\n");
}

static json_t *json_rails(const struct perf_verdict *v, int side)
{
	const struct perf_rails *rails = &v->rails[side];
	json_t *all = json_array();

	for (int i = 0; i < rails->n; i++)
		json_array_append_new(
			all,
			json_pack(
				"{s:s,s:s,s:b,s:b,s:b,s:I,s:I,s:I,s:I}", "name",
				rails->rail[i].name, "device",
				rails->rail[i].device, "soft",
				rails->rail[i].soft, "up", rails->rail[i].up,
				"standby", rails->rail[i].standby, "speed_mbps",
				(json_int_t)rails->rail[i].speed_mbps,
				"tx_bytes", (json_int_t)rails->rail[i].tx_bytes,
				"rx_bytes", (json_int_t)rails->rail[i].rx_bytes,
				"errors", (json_int_t)rails->rail[i].errors));
	return all;
}

static json_t *json_pair(const struct perf_options *opt,
			 const struct perf_verdict *v, double median)
{
	char text[FAULTS_MAX][PERF_FAULT_LEN];
	int n = perf_verdict_faults(opt, v, median, text, FAULTS_MAX);
	json_t *faults = json_array();
	double expected = expected_of(opt, v);

	for (int i = 0; i < n; i++)
		json_array_append_new(faults, json_string(text[i]));
	return json_pack(
		"{s:[s,s],s:i,s:b,s:b,s:I,s:f,s:f,s:f,s:o,s:f,s:[o,o],s:o}",
		"hosts", opt->hosts[v->host[0]], opt->hosts[v->host[1]],
		"device", v->device, "ok", n == 0, "ran", v->ran,
		"wrong_messages", (json_int_t)v->wrong, "p50_us", v->p50_us,
		"p99_us", v->p99_us, "busbw", v->busbw, "expected",
		expected > 0 ? json_real(expected) : json_null(), "seconds",
		v->seconds, "rails", json_rails(v, 0), json_rails(v, 1),
		"faults", faults);
}

static bool save(const struct perf_options *opt, const struct perf_verdict *v,
		 int n, const double *median, int pairs, int bad)
{
	json_t *all = json_array(), *top;
	bool ok;

	if (!opt->json) {
		json_decref(all);
		return true;
	}
	for (int i = 0; i < n; i++)
		json_array_append_new(
			all, json_pair(opt, &v[i], median_for(&v[i], median)));
	top = json_pack("{s:b,s:i,s:i,s:o}", "ok", bad == 0, "pairs_checked",
			pairs, "pairs_failed", bad, "pairs", all);
	ok = perf_save_json(opt->json, top);
	json_decref(top);
	return ok;
}

static void print_head(int width)
{
	printf("# %-*s  %-*s  %3s  %-4s  %-5s %8s %8s %8s %8s %s\n", width - 2,
	       "host", width, "host", "dev", "", "data", "p50", "p99", "busbw",
	       "expected", "rails, sent by each host");
	printf("# %-*s  %-*s  %3s  %-4s  %-5s %8s %8s %8s %8s %s\n", width - 2,
	       "", width, "", "", "", "", "(us)", "(us)", "(GB/s)", "",
	       "(Gb/s)");
}

/* Print a line for each verdict, a line for each fault, and the number of pairs
 * that passed. The verdicts of a pair must be adjacent. With --json, write
 * JSON, too. Returns the exit status: 0 if there are no faults. */
static int report_all(const struct perf_options *opt,
		      const struct perf_verdict *v, int n)
{
	char text[FAULTS_MAX][PERF_FAULT_LEN];
	double median[PERF_DEVICES_MAX];
	int bad = 0, pairs = 0, width = 8;
	bool failed = false;

	set_medians(v, n, median);
	for (int i = 0; i < opt->nhosts; i++) {
		int len = (int)strlen(opt->hosts[i]);

		width = len > width ? len : width;
	}
	print_head(width);
	for (int i = 0; i < n; i++) {
		int faults = perf_verdict_faults(opt, &v[i],
						 median_for(&v[i], median),
						 text, FAULTS_MAX);

		print_pair(opt, &v[i], width, faults == 0);
		for (int k = 0; k < faults; k++)
			printf("    %s\n", text[k]);
		failed |= faults > 0;
		if (i + 1 < n && v[i + 1].host[0] == v[i].host[0] &&
		    v[i + 1].host[1] == v[i].host[1])
			continue; /* another device of the same pair */
		pairs++;
		bad += failed;
		failed = false;
	}
	printf("# check : %s, %d of %d pairs passed\n", bad ? "FAIL" : "PASS",
	       pairs - bad, pairs);
	fflush(stdout);
	return save(opt, v, n, median, pairs, bad) && bad == 0 ? 0 : 1;
}

#define LATENCY_BYTES 8
#define LATENCY_ITERS 500
#define SPEED_BYTES (4 << 20)
#define SPEED_SECONDS 1.0
/* Time limit for the tests of a device, in addition to their nominal length. */
#define PAIR_S 60

/* Run a test of the two hosts. On failure, print a line to stderr and return
 * false. */
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

		ok = fd >= 0 && perf_hub_greet(h, fd, i, host[i]) >= 0;
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
	if (!ok)
		snprintf(v->why, sizeof(v->why), "%.399s", perf_bad_said());
	return ok;
}

/* Measure the latency of a pair, then its speed. The order matters, because the
 * rails in *v must be those of the speed test. */
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

/* Run the tests of a pair in a forked process, which writes its verdicts to a
 * pipe. Returns the reading end of the pipe, or -1. */
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

/* Read the verdicts on a pair into `v`. If the pipe has no verdict, write a
 * verdict that says that the test failed. A verdict is written to the pipe
 * atomically, so a read returns a whole verdict or nothing. Returns the address
 * after the last verdict. */
static struct perf_verdict *fetch(int fd, const struct perf_verdict *pair,
				  struct perf_verdict *v)
{
	struct perf_verdict *first = v;

	_Static_assert(sizeof(*v) <= PIPE_BUF, "writes must be atomic");
	while (fd >= 0 && v - first < PERF_DEVICES_MAX &&
	       read(fd, v, sizeof(*v)) == sizeof(*v))
		v++;
	if (fd >= 0)
		close(fd);
	if (v == first)
		*v++ = *pair;
	return v;
}

/* Get pair `k` of a round by the circle method: host 0 stays, the others
 * rotate. With an odd number of hosts, the host whose partner would be number n
 * has no test. */
static void pair_of(int n, int round, int k, int *a, int *b)
{
	int m = n + n % 2 - 1;

	*a = k == 0 ? m : (round + k) % m;
	*b = (round + m - k) % m;
}

/* Run one round. If --serial is set, test one pair after the other. Adds the
 * number of pairs to *pairs, and returns the address after the last verdict. */
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
	rc = report_all(opt, v, (int)(end - v));
	free(v);
	return rc;
}
