/* SPDX-License-Identifier: Apache-2.0 */
/* The report of mpib-perf check. */
#include "perf/hosts/verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "perf/save.h"

#define FAULTS_MAX 24

static int by_busbw(const void *a, const void *b)
{
	const struct perf_verdict *x = a, *y = b;

	return (x->busbw > y->busbw) - (x->busbw < y->busbw);
}

/* Set median[d] to the median busbw of the tests of device d that ran; to 0
 * with fewer than three tests. */
static void set_medians(const struct perf_verdict *v, int n,
			double median[PERF_DEVICES_MAX])
{
	struct perf_verdict *sorted = calloc((size_t)n, sizeof(*sorted));

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
	double expected = perf_verdict_expected(opt, v);

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
	double expected = perf_verdict_expected(opt, v);

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

int perf_verdict_report(const struct perf_options *opt,
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
			continue; /* the pair has one more device */
		pairs++;
		bad += failed;
		failed = false;
	}
	printf("# check : %s, %d of %d pairs are well\n", bad ? "FAIL" : "PASS",
	       pairs - bad, pairs);
	fflush(stdout);
	return save(opt, v, n, median, pairs, bad) && bad == 0 ? 0 : 1;
}
