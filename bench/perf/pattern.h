/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ranks send each other. A pattern decides where its messages lie in
 * the buffers of its streams, and when each may be sent.
 */
#ifndef PERF_PATTERN_H
#define PERF_PATTERN_H

#include "perf/stream.h"

struct perf_rank {
	struct perf_world *w;
	int rank;
	struct perf_plug plug;
	struct perf_stream *stream; /* sends first, then receives */
	int nsend, nrecv;
};

/* Write to peer the ranks to which rank sends or, unless sends, from which it
 * receives. Returns their number, at most that of all ranks. */
int perf_pattern_peers(const struct perf_options *opt, int rank, bool sends,
		       int *peer);

/* Bytes of registered memory that a stream needs; streams is the number of
 * streams of the rank. */
size_t perf_pattern_memory(const struct perf_options *opt, bool sends,
			   int streams);

/* The most iterations of `size` that fit in a batch, at least 1. */
uint64_t perf_pattern_iters(const struct perf_rank *r, uint64_t size);

/* Run a batch and, unless --check 0, compare all data received. Adds to *res.
 * False after a failure. */
struct perf_batch;
bool perf_pattern_run(struct perf_rank *r, const struct perf_batch *batch,
		      struct perf_result *res);

#endif
