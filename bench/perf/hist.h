/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A histogram of latencies, of fixed size. The width of a bucket is at most
 * 1/32 of its value, so quantiles have an error of at most 3 %.
 */
#ifndef PERF_HIST_H
#define PERF_HIST_H

#include <stdint.h>

#define PERF_HIST_SUB 32
#define PERF_HIST_BUCKETS (36 * PERF_HIST_SUB)

struct perf_hist {
	uint64_t count;
	uint32_t bucket[PERF_HIST_BUCKETS];
};

/* Add a sample. Only one thread may add to a histogram. */
void perf_hist_add(struct perf_hist *h, uint64_t ns);

void perf_hist_merge(struct perf_hist *to, const struct perf_hist *from);

/* Return the quantile `q` (0..1) in ns. The result is the middle of a bucket,
 * or 0 if there are no samples. */
double perf_hist_quantile(const struct perf_hist *h, double q);

#endif
