/* SPDX-License-Identifier: Apache-2.0 */
/* The results of all ranks, as rows of text and as JSON. */
#ifndef PERF_REPORT_H
#define PERF_REPORT_H

#include <jansson.h>

#include "perf/world.h"

/* The results of one row over all ranks. */
struct perf_row {
	uint64_t size, count, wrong, wrong_messages;
	uint64_t messages, bytes; /* that were compared */
	uint64_t iters; /* timed; with random sizes 1 */
	double checking; /* longest time that a rank compared, s */
	double seconds; /* of one iteration, slowest rank */
	double algbw, busbw; /* GB/s */
	double cpu_ranks, cpu_proxies; /* s/GB sent, < 0 unknown */
	double p50, p90, p99, p999; /* us, < 0 where not measured */
};

/* The part of that time for one direction: in pingpong the directions
 * alternate. */
static inline double perf_one_way(const struct perf_options *opt, double s)
{
	return opt->pattern == PERF_PINGPONG ? s / 2 : s;
}

struct perf_row perf_row_make(const struct perf_world *w, int i);

void perf_report_header(const struct perf_world *w);
/* Called while row i runs: at most once a second a line about the time since
 * the last one. */
void perf_report_progress(const struct perf_world *w, int i,
			  const struct perf_sums *now);
/* Called when all ranks have ended row i. */
void perf_report_row(const struct perf_world *w, int i);
/* Print the sums and write the JSON. True when no message was wrong. */
bool perf_report(const struct perf_world *w);

/* Write the file of --json, "-" for standard output. False after a line on
 * stderr. */
bool perf_save_json(const char *path, const json_t *all);

#endif
