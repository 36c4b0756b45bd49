/* SPDX-License-Identifier: Apache-2.0 */
/* The results of all ranks, as rows of text and as JSON. */
#ifndef PERF_REPORT_H
#define PERF_REPORT_H

#include <jansson.h>

#include "perf/world.h"

/* The results of one row over all ranks. */
struct perf_row {
	uint64_t size, count, wrong, wrong_messages;
	uint64_t messages, bytes; /* compared */
	uint64_t iters; /* timed iterations; 1 with random sizes */
	/* seconds that the slowest rank spent comparing data */
	double checking;
	double seconds; /* time of one iteration of the slowest rank */
	double algbw, busbw; /* GB/s */
	double cpu_ranks, cpu_proxies; /* s per GB sent; < 0: unknown */
	double p50, p90, p99, p999; /* us; < 0: not measured */
};

/* Return the time of one direction. With pingpong the time is half of `s`,
 * because the directions alternate. */
static inline double perf_one_way(const struct perf_options *opt, double s)
{
	return opt->pattern == PERF_PINGPONG ? s / 2 : s;
}

struct perf_row perf_row_make(const struct perf_world *w, int i);

void perf_report_header(const struct perf_world *w);
/* While row `i` runs, print a line about the time since the previous line, at
 * most once a second. */
void perf_report_progress(const struct perf_world *w, int i,
			  const struct perf_sums *now);
/* Print row `i`. All ranks must have finished the row. */
void perf_report_row(const struct perf_world *w, int i);
/* Print the sums and write the JSON. Returns whether all messages arrived
 * unchanged. */
bool perf_report(const struct perf_world *w);

/* Write the file of --json; "-" is standard output. On failure, print a line to
 * stderr and return false. */
bool perf_save_json(const char *path, const json_t *all);

#endif
