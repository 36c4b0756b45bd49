/* SPDX-License-Identifier: Apache-2.0 */
/* Judging the results of a pair of hosts in mpib-perf check. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "perf/hosts/verdict.h"

/* A pair is slow below this part of the expected or the median speed. */
#define ENOUGH 0.7
/* A rail that moved less than this part of its share is idle. */
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

double perf_verdict_expected(const struct perf_options *opt,
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
			add(list, "%s: rail %s (%s) carries next to nothing",
			    host, name, rails->rail[i].device);
		if (rails->rail[i].errors)
			add(list,
			    "%s: rail %s (%s): %llu errors, retries or fail-overs meanwhile",
			    host, name, rails->rail[i].device,
			    (unsigned long long)rails->rail[i].errors);
	}
}

int perf_verdict_faults(const struct perf_options *opt,
			const struct perf_verdict *v, double median,
			char text[][PERF_FAULT_LEN], int max)
{
	struct list list = { .text = text, .max = max };
	double expected = perf_verdict_expected(opt, v);

	if (!v->ran) {
		add(&list, "the test failed (see the line before)");
		return list.n;
	}
	if (v->device == 0 && v->devices[0] != v->devices[1])
		add(&list,
		    "%s has %d devices and %s %d: the others are not tested",
		    opt->hosts[v->host[0]], v->devices[0],
		    opt->hosts[v->host[1]], v->devices[1]);
	if (v->wrong)
		add(&list, "%llu messages came wrong",
		    (unsigned long long)v->wrong);
	if (expected > 0 && v->busbw < ENOUGH * expected)
		add(&list, "%.2f GB/s is %.0f %% of the %.2f GB/s expected",
		    v->busbw, 100 * v->busbw / expected, expected);
	if (opt->expect != 0 && median > 0 && v->busbw < ENOUGH * median)
		add(&list, "%.2f GB/s is %.0f %% of what most pairs have",
		    v->busbw, 100 * v->busbw / median);
	for (int side = 0; side < 2; side++)
		judge_rails(opt, v, side, &list);
	return list.n;
}
