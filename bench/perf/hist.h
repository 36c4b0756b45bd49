/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A histogram of latencies. Buckets are at most 1/32 of their value wide, so
 * any number of samples takes a fixed size and quantiles are right to 3 %.
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

/* The quantile q (0..1) in ns, as the middle of its bucket. 0 without
 * samples. */
double perf_hist_quantile(const struct perf_hist *h, double q);

#endif
