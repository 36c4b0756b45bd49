/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A histogram of durations in fixed memory: four buckets an octave from 256 ns
 * to 17 s, so a quantile is a quarter too high at most, in 864 bytes. One thread
 * records, any thread reads meanwhile. All accesses are relaxed: each bucket
 * only grows and stands for itself, and a reader that sees some of a moment's
 * counts sees the rest a moment later.
 */
#ifndef MPIB_BASE_HIST_H
#define MPIB_BASE_HIST_H

#include <stdatomic.h>
#include <stdint.h>

#define MPIB_HIST_LOW_BITS 8 /* below 2^8 ns all is one bucket */
#define MPIB_HIST_HIGH_BITS 34 /* from 2^34 ns on, too */
#define MPIB_HIST_SUB_BITS 2
#define MPIB_HIST_BUCKETS                                                      \
	(((MPIB_HIST_HIGH_BITS - MPIB_HIST_LOW_BITS) << MPIB_HIST_SUB_BITS) + 2)

struct mpib_hist {
	_Atomic uint64_t sum; /* ns */
	_Atomic uint64_t max; /* ns */
	_Atomic uint64_t bucket[MPIB_HIST_BUCKETS];
};

/* A copy to compute with; sums of several make sense. */
struct mpib_hist_counts {
	uint64_t count, sum, max;
	uint64_t bucket[MPIB_HIST_BUCKETS];
};

/* Wait-free. The bucket that ns falls into. */
static inline unsigned mpib_hist_index(uint64_t ns)
{
	unsigned top;

	if (ns < 1ull << MPIB_HIST_LOW_BITS)
		return 0;
	if (ns >= 1ull << MPIB_HIST_HIGH_BITS)
		return MPIB_HIST_BUCKETS - 1;
	top = 63u - (unsigned)__builtin_clzll(ns);
	return 1 + ((top - MPIB_HIST_LOW_BITS) << MPIB_HIST_SUB_BITS) +
	       ((unsigned)(ns >> (top - MPIB_HIST_SUB_BITS)) &
		((1u << MPIB_HIST_SUB_BITS) - 1));
}

/* Wait-free. The recording thread only, so no read-modify-write is needed. */
static inline void mpib_hist_bump(_Atomic uint64_t *n, uint64_t by)
{
	atomic_store_explicit(
		n, atomic_load_explicit(n, memory_order_relaxed) + by,
		memory_order_relaxed);
}

/* Wait-free. The recording thread only. */
static inline void mpib_hist_record(struct mpib_hist *h, uint64_t ns)
{
	mpib_hist_bump(&h->bucket[mpib_hist_index(ns)], 1);
	mpib_hist_bump(&h->sum, ns);
	if (ns > atomic_load_explicit(&h->max, memory_order_relaxed))
		atomic_store_explicit(&h->max, ns, memory_order_relaxed);
}

/* Any thread. Add what h has to sum. */
void mpib_hist_read(const struct mpib_hist *h, struct mpib_hist_counts *sum);
void mpib_hist_add(struct mpib_hist_counts *sum,
		   const struct mpib_hist_counts *n);

/* First ns above the bucket's, UINT64_MAX for the last. */
uint64_t mpib_hist_bound(unsigned bucket);
/* The smallest bound that has at least q (0 to 1) of all below it, but no more
 * than the maximum seen; 0 when nothing was recorded. */
uint64_t mpib_hist_quantile(const struct mpib_hist_counts *h, double q);

#endif
