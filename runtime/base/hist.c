/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hist.h"

void mpib_hist_read(const struct mpib_hist *h, struct mpib_hist_counts *sum)
{
	uint64_t max = atomic_load_explicit(&h->max, memory_order_relaxed);

	sum->sum += atomic_load_explicit(&h->sum, memory_order_relaxed);
	sum->max = max > sum->max ? max : sum->max;
	for (unsigned i = 0; i < MPIB_HIST_BUCKETS; i++) {
		uint64_t n = atomic_load_explicit(&h->bucket[i],
						  memory_order_relaxed);

		sum->bucket[i] += n;
		sum->count += n;
	}
}

void mpib_hist_add(struct mpib_hist_counts *sum,
		   const struct mpib_hist_counts *n)
{
	sum->count += n->count;
	sum->sum += n->sum;
	sum->max = n->max > sum->max ? n->max : sum->max;
	for (unsigned i = 0; i < MPIB_HIST_BUCKETS; i++)
		sum->bucket[i] += n->bucket[i];
}

uint64_t mpib_hist_bound(unsigned bucket)
{
	unsigned octave = bucket >> MPIB_HIST_SUB_BITS;
	unsigned sub = bucket & ((1u << MPIB_HIST_SUB_BITS) - 1);

	if (bucket >= MPIB_HIST_BUCKETS - 1)
		return UINT64_MAX;
	return ((1ull << MPIB_HIST_SUB_BITS) + sub)
	       << (octave + MPIB_HIST_LOW_BITS - MPIB_HIST_SUB_BITS);
}

uint64_t mpib_hist_quantile(const struct mpib_hist_counts *h, double q)
{
	double want = q * (double)h->count;
	uint64_t below = 0;

	for (unsigned i = 0; i < MPIB_HIST_BUCKETS; i++) {
		uint64_t bound = mpib_hist_bound(i);

		below += h->bucket[i];
		if (below > 0 && (double)below >= want)
			return bound < h->max ? bound : h->max;
	}
	return h->max;
}
