/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring all-reduce with a real reduction: reduce-scatter, then all-gather, with
 * chunks pipelined over both; or one of the two alone. Each channel is a ring over its own slice of the
 * data. Elements are 32-bit integers added modulo 2^32, since floats would
 * round wrong bits away. Each rank compares the result of each iteration.
 */
#ifndef PERF_RING_H
#define PERF_RING_H

#include "perf/batch.h"

/* Bytes of a channel's slice of `size`, rounded up. */
uint64_t perf_ring_slice(const struct perf_options *opt, uint64_t size);
size_t perf_ring_memory(const struct perf_options *opt, bool sends,
			int streams);
bool perf_ring_run(struct perf_rank *r, const struct perf_batch *batch,
		   struct perf_result *res);

#endif
