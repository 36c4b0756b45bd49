/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The patterns of messages between the ranks. A pattern decides where its
 * messages are in the buffers of its streams, and when each may be sent.
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

/* If `sends` is true, write to `peer` the ranks to which `rank` sends.
 * Otherwise write the ranks from which `rank` receives. Returns their number,
 * which is at most the number of all ranks. */
int perf_pattern_peers(const struct perf_options *opt, int rank, bool sends,
		       int *peer);

/* Return how many bytes of registered memory a stream needs. `streams` is the
 * number of streams of the rank. */
size_t perf_pattern_memory(const struct perf_options *opt, bool sends,
			   int streams);

/* Return how many iterations of `size` bytes fit in a batch, at least 1. */
uint64_t perf_pattern_iters(const struct perf_rank *r, uint64_t size);

/*
 * A batch: the iterations that fit side by side into the buffers of a rank.
 * Each message of a batch has its own memory and is checked after the batch.
 * The clock runs from the barrier before the first message to the barrier after
 * the last one. Filling and comparing buffers is not timed.
 */
struct perf_batch {
	uint64_t size; /* bytes of an iteration */
	/* `first`: number of the first iteration in the row; `iters`: number
	 * of iterations. */
	uint64_t first, iters;
	uint64_t key; /* the row's key, see data.h */
	bool timed; /* false: warm-up */
};

/* Return the key of the messages in one direction of a connection. */
uint64_t perf_stream_key(const struct perf_stream *s,
			 const struct perf_batch *batch);

/* Return the distance in bytes from one iteration to the next in a buffer. */
uint64_t perf_batch_stride(uint64_t bytes);

/* Return the size of a buffer. An iteration of the largest size has `bytes`
 * bytes, and the rank has `streams` buffers. */
uint64_t perf_batch_memory(const struct perf_options *opt, uint64_t bytes,
			   int streams);

/* Return how many iterations of `bytes` bytes fit into a buffer of `memory`
 * bytes, at least 1. */
uint64_t perf_batch_iters(uint64_t memory, uint64_t bytes);

/* Start and stop the clock of a batch. Both functions return false if a rank
 * has failed. */
struct perf_lap {
	double begun, cpu, proxies;
	bool leads;
};
bool perf_lap_begin(struct perf_rank *r, struct perf_lap *lap);
bool perf_lap_end(struct perf_rank *r, const struct perf_lap *lap, bool timed,
		  struct perf_result *res);

/* Run a batch. Unless --check is 0, also compare all received data. Adds to
 * *res. Returns false after a failure. */
bool perf_pattern_run(struct perf_rank *r, const struct perf_batch *batch,
		      struct perf_result *res);

/*
 * A ring all-reduce with a real reduction: a reduce-scatter, then an
 * all-gather, with chunks pipelined over both. The patterns reduce-scatter and
 * all-gather run only one of the two phases. Each channel is a ring with its
 * own slice of the data. Elements are 32-bit integers added modulo 2^32, since
 * the rounding of floats could hide wrong bits. Each rank compares the result
 * of each iteration.
 */
size_t perf_ring_memory(const struct perf_options *opt, bool sends,
			int streams);
bool perf_ring_run(struct perf_rank *r, const struct perf_batch *batch,
		   struct perf_result *res);
/* Return how many bytes of `size` a channel's slice has, rounded up. */
uint64_t perf_ring_slice(const struct perf_options *opt, uint64_t size);

/*
 * Messages of random sizes go into receives of the maximum size. When a message
 * arrives, its size and data are checked, and the bytes after its end must be
 * unchanged. The timed part includes these checks.
 */
size_t perf_random_memory(const struct perf_options *opt);
bool perf_random_run(struct perf_rank *r, const struct perf_batch *batch,
		     struct perf_result *res);

/*
 * --pattern nccl: requests like those of NCCL on a connection. A buffer has 8
 * slots, which messages use in turn. Each buffer of a receive is a whole slot,
 * and one irecv posts all buffers of a group. The sends of a group are in
 * another order than its receives, as when several ranks share a connection.
 * When a message has arrived, its slot is checked and then used again. So the
 * timed part includes the checks, which stand for the work of a GPU.
 */
size_t perf_steps_memory(const struct perf_options *opt);
bool perf_steps_run(struct perf_rank *r, const struct perf_batch *batch,
		    struct perf_result *res);

#endif
