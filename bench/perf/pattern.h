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
	/* One slice a channel; all streams of a channel lie in it. */
	char *mem;
	size_t mem_len;
	void *pattern; /* its state */
};

/* The ranks this one sends to and receives from; how many (at most all). */
int perf_pattern_peers(const struct perf_options *opt, int rank, bool sends,
		       int *peer);

/* Bytes of registered memory a stream of the pattern needs. */
size_t perf_pattern_memory(const struct perf_options *opt, bool sends);

/* Iterations of one size: check says that data is made and compared. False
 * after a failure. Adds to *wrong, *sent; hist for pingpong. */
bool perf_pattern_run(struct perf_rank *r, uint64_t size, uint64_t iters,
		      bool check, uint64_t round, struct perf_result *res);

#endif
