/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch is as many iterations as the buffers of a rank hold side by side, so
 * that each message has a place of its own and can be looked at when the batch
 * is over. The clock runs from the barrier before its first message to the one
 * behind its last; filling and comparing happen outside.
 */
#ifndef PERF_BATCH_H
#define PERF_BATCH_H

#include "perf/pattern.h"

struct perf_batch {
	uint64_t size; /* of an iteration */
	uint64_t first, iters; /* numbers of iterations of the row */
	uint64_t key; /* of the row */
	bool timed; /* false: warm-up */
};

/* From one iteration to the next in a buffer. */
uint64_t perf_batch_stride(uint64_t bytes);

/* Bytes of a buffer, if one iteration of the largest size takes so many there.
 * streams: buffers of the rank. */
uint64_t perf_batch_memory(const struct perf_options *opt, uint64_t bytes,
			   int streams);

/* Iterations, at least 1, that memory of so many bytes holds. */
uint64_t perf_batch_iters(uint64_t memory, uint64_t bytes);

/* Begin and end the clock of a batch. False when a rank has failed. */
struct perf_lap {
	double begun, cpu, proxies;
};
bool perf_lap_begin(struct perf_rank *r, struct perf_lap *lap);
bool perf_lap_end(struct perf_rank *r, const struct perf_lap *lap, bool timed,
		  struct perf_result *res);

#endif
