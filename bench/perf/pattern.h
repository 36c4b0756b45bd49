/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ranks send each other. A pattern lays its messages out in the
 * memory of its streams and says when each may go.
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

/* The ranks this one sends to and receives from; how many (at most all). */
int perf_pattern_peers(const struct perf_options *opt, int rank, bool sends,
		       int *peer);

/* Bytes of registered memory a stream of the pattern needs; streams: how many
 * the rank has. */
size_t perf_pattern_memory(const struct perf_options *opt, bool sends,
			   int streams);

/* Iterations of size that a batch takes at most, at least 1. */
uint64_t perf_pattern_iters(const struct perf_rank *r, uint64_t size);

/* Runs a batch and, unless --check 0, compares all that it moved. False after
 * a failure. Adds to *res. */
struct perf_batch;
bool perf_pattern_run(struct perf_rank *r, const struct perf_batch *batch,
		      struct perf_result *res);

#endif
