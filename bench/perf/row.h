/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_ROW_H
#define PERF_ROW_H

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

#endif
