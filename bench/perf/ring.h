/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring all-reduce with the real reduction: reduce-scatter, then all-gather,
 * chunks pipelined over both. Every channel is a ring of its own over its slice
 * of the data. The sums are of 32-bit integers that wrap, as floats would round
 * a wrong bit away. Compared is the result of each iteration at each rank.
 */
#ifndef PERF_RING_H
#define PERF_RING_H

#include "perf/batch.h"

/* Bytes of size that a channel has, rounded up. */
uint64_t perf_ring_slice(const struct perf_options *opt, uint64_t size);
size_t perf_ring_memory(const struct perf_options *opt, bool sends,
			int streams);
bool perf_ring_run(struct perf_rank *r, const struct perf_batch *batch,
		   struct perf_result *res);

#endif
