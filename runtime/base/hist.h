/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A histogram of durations in fixed memory (880 bytes): four buckets per octave
 * from 256 ns to 17 s, so a quantile is at most a quarter too high. One thread
 * records while any thread reads. All accesses are relaxed: each bucket only
 * grows and is read independently. A reader that misses the latest counts sees
 * them the next time.
 */
#ifndef MPIB_BASE_HIST_H
#define MPIB_BASE_HIST_H

#include <stdatomic.h>
#include <stdint.h>

#define MPIB_HIST_LOW_BITS 8 /* one bucket for all times below 2^8 ns */
#define MPIB_HIST_HIGH_BITS 34 /* one bucket for 2^34 ns and more */
#define MPIB_HIST_SUB_BITS 2
#define MPIB_HIST_BUCKETS                                                      \
	(((MPIB_HIST_HIGH_BITS - MPIB_HIST_LOW_BITS) << MPIB_HIST_SUB_BITS) + 2)

struct mpib_hist {
	_Atomic uint64_t sum; /* ns */
	_Atomic uint64_t max; /* ns */
	_Atomic uint64_t bucket[MPIB_HIST_BUCKETS];
	/* The last value recorded and its bucket, as a cache: messages of one
	 * turn often have the same time. Recording thread only. */
	uint64_t last;
	uint64_t at;
};

/* A copy of one histogram, or the sum of several, for calculations. */
struct mpib_hist_counts {
	uint64_t count, sum, max;
	uint64_t bucket[MPIB_HIST_BUCKETS];
};

/* Return the bucket of the duration `ns`, wait-free. The highest three bits of
 * `ns` (values 4 to 7) choose one of the four buckets of the octave. Bucket 1
 * begins at 2^MPIB_HIST_LOW_BITS. */
static inline unsigned mpib_hist_index(uint64_t ns)
{
	unsigned top;

	if (ns < 1ull << MPIB_HIST_LOW_BITS)
		return 0;
	if (ns >= 1ull << MPIB_HIST_HIGH_BITS)
		return MPIB_HIST_BUCKETS - 1;
	top = (unsigned)__builtin_clzll(ns) ^ 63u;
	return (top << MPIB_HIST_SUB_BITS) +
	       (unsigned)(ns >> (top - MPIB_HIST_SUB_BITS)) -
	       ((MPIB_HIST_LOW_BITS + 1) << MPIB_HIST_SUB_BITS) + 1;
}

/* Wait-free. Called only on the recording thread: with a single writer, no
 * read-modify-write is needed. */
static inline void mpib_hist_bump(_Atomic uint64_t *n, uint64_t by)
{
	atomic_store_explicit(
		n, atomic_load_explicit(n, memory_order_relaxed) + by,
		memory_order_relaxed);
}

/* Wait-free. Called only on the recording thread. */
static inline void mpib_hist_record(struct mpib_hist *h, uint64_t ns)
{
	if (ns != h->last) {
		h->last = ns;
		h->at = mpib_hist_index(ns);
		if (ns > atomic_load_explicit(&h->max, memory_order_relaxed))
			atomic_store_explicit(&h->max, ns,
					      memory_order_relaxed);
	}
	mpib_hist_bump(&h->bucket[h->at], 1);
	mpib_hist_bump(&h->sum, ns);
}

/* Add the counts of h to *sum. Any thread. */
void mpib_hist_read(const struct mpib_hist *h, struct mpib_hist_counts *sum);
void mpib_hist_add(struct mpib_hist_counts *sum,
		   const struct mpib_hist_counts *n);

/* Return the smallest time in ns that is above the bucket, or UINT64_MAX for
 * the last bucket. */
uint64_t mpib_hist_bound(unsigned bucket);
/* Return the q-quantile (q from 0 to 1): the smallest bucket bound with at
 * least this fraction of the records below it, limited to the recorded maximum.
 * 0 if nothing was recorded. */
uint64_t mpib_hist_quantile(const struct mpib_hist_counts *h, double q);

#endif
