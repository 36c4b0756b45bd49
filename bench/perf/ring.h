/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring all-reduce of floats with the real reduction: reduce-scatter, then
 * all-gather, chunks pipelined over both. Every channel is a ring of its own
 * over its slice of the data.
 */
#ifndef PERF_RING_H
#define PERF_RING_H

#include "perf/pattern.h"

size_t perf_ring_memory(const struct perf_options *opt, bool sends);
bool perf_ring_run(struct perf_rank *r, uint64_t size, uint64_t iters,
		   bool check, uint64_t round, struct perf_result *res);

#endif
