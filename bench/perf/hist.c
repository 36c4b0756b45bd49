/* SPDX-License-Identifier: Apache-2.0 */
/* Latency histograms. */
#include "perf/hist.h"

/* Return the bucket of a value. Each value below PERF_HIST_SUB has its own
 * bucket. Above that, each power of two is divided into PERF_HIST_SUB
 * buckets. */
static unsigned int bucket_of(uint64_t ns)
{
	unsigned int shift, index;

	if (ns < PERF_HIST_SUB)
		return (unsigned int)ns;
	shift = 63 - 5 - (unsigned int)__builtin_clzll(ns);
	index = shift * PERF_HIST_SUB + (unsigned int)(ns >> shift);
	return index < PERF_HIST_BUCKETS ? index : PERF_HIST_BUCKETS - 1;
}

static double middle_of(unsigned int index)
{
	unsigned int shift;

	if (index < 2 * PERF_HIST_SUB)
		return index;
	shift = index / PERF_HIST_SUB - 1;
	return ((double)(index - shift * PERF_HIST_SUB) + 0.5) *
	       (double)(1ull << shift);
}

void perf_hist_add(struct perf_hist *h, uint64_t ns)
{
	h->bucket[bucket_of(ns)]++;
	h->count++;
}

void perf_hist_merge(struct perf_hist *to, const struct perf_hist *from)
{
	for (unsigned int i = 0; i < PERF_HIST_BUCKETS; i++)
		to->bucket[i] += from->bucket[i];
	to->count += from->count;
}

double perf_hist_quantile(const struct perf_hist *h, double q)
{
	double want = q * (double)h->count;
	uint64_t seen = 0;

	if (!h->count)
		return 0;
	for (unsigned int i = 0; i < PERF_HIST_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen && (double)seen >= want)
			return middle_of(i);
	}
	return middle_of(PERF_HIST_BUCKETS - 1);
}
