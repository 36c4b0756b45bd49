/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch is as many iterations as the buffers of a rank hold side by side:
 * each message has its own place and is checked after the batch. The clock runs
 * from the barrier before the first message to the barrier after the last one;
 * filling and comparing buffers is not timed.
 */
#ifndef PERF_BATCH_H
#define PERF_BATCH_H

#include "perf/pattern.h"

struct perf_batch {
	uint64_t size; /* bytes of an iteration */
	uint64_t first, iters; /* first iteration in the row; how many */
	uint64_t key; /* of the row, see data.h */
	bool timed; /* false: warm-up */
};

/* Bytes from one iteration to the next in a buffer. */
uint64_t perf_batch_stride(uint64_t bytes);

/* Bytes of a buffer in which an iteration of the largest size takes `bytes`.
 * streams is the number of buffers of the rank. */
uint64_t perf_batch_memory(const struct perf_options *opt, uint64_t bytes,
			   int streams);

/* How many iterations of `bytes` fit into a buffer of `memory`, at least 1. */
uint64_t perf_batch_iters(uint64_t memory, uint64_t bytes);

/* Begin and end the clock of a batch. False when a rank has failed. */
struct perf_lap {
	double begun, cpu, proxies;
	bool leads;
};
bool perf_lap_begin(struct perf_rank *r, struct perf_lap *lap);
bool perf_lap_end(struct perf_rank *r, const struct perf_lap *lap, bool timed,
		  struct perf_result *res);

#endif
