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

/*
 * A batch is as many iterations as the buffers of a rank hold side by side:
 * each message has its own place and is checked after the batch. The clock runs
 * from the barrier before the first message to the barrier after the last one;
 * filling and comparing buffers is not timed.
 */
struct perf_batch {
	uint64_t size; /* bytes of an iteration */
	uint64_t first, iters; /* first iteration in the row; how many */
	uint64_t key; /* of the row, see data.h */
	bool timed; /* false: warm-up */
};

/* The key of the messages in one direction of a connection. */
uint64_t perf_stream_key(const struct perf_stream *s,
			 const struct perf_batch *batch);

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

/* Run a batch and, unless --check 0, compare all data received. Adds to *res.
 * False after a failure. */
bool perf_pattern_run(struct perf_rank *r, const struct perf_batch *batch,
		      struct perf_result *res);

/*
 * Ring all-reduce with a real reduction: reduce-scatter, then all-gather, with
 * chunks pipelined over both; or one of the two alone. Each channel is a ring
 * over its own slice of the data. Elements are 32-bit integers added modulo
 * 2^32, since floats would round wrong bits away. Each rank compares the result
 * of each iteration.
 */
size_t perf_ring_memory(const struct perf_options *opt, bool sends,
			int streams);
bool perf_ring_run(struct perf_rank *r, const struct perf_batch *batch,
		   struct perf_result *res);
/* Bytes of a channel's slice of `size`, rounded up. */
uint64_t perf_ring_slice(const struct perf_options *opt, uint64_t size);

/*
 * Messages of random sizes into receives of the maximum size. Each is checked
 * when it arrives, within the timed part: its size, its data, and that nothing
 * behind it was written.
 */
size_t perf_random_memory(const struct perf_options *opt);
bool perf_random_run(struct perf_rank *r, const struct perf_batch *batch,
		     struct perf_result *res);

/*
 * --pattern nccl: the requests that NCCL makes of a connection. A buffer has 8
 * slots, which messages use in turn. A receive is posted for whole slots, and
 * for all buffers of a group at once. The sends of a group are in another order
 * than its receives, as when several ranks share a connection. A slot is
 * checked when its message has arrived and is free then, so checking is timed,
 * like the work of a GPU.
 */
size_t perf_steps_memory(const struct perf_options *opt);
bool perf_steps_run(struct perf_rank *r, const struct perf_batch *batch,
		    struct perf_result *res);

#endif
