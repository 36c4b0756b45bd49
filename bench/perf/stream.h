/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One direction of one connection, driven as NCCL's progress thread drives it:
 * at most so many requests in flight, only the oldest is tested, one action a
 * turn.
 */
#ifndef PERF_STREAM_H
#define PERF_STREAM_H

#include "perf/plug.h"
#include "perf/world.h"

struct perf_stream;

/* Where message i lies and how long it is (posted size of a receive). */
typedef void perf_place_fn(struct perf_stream *s, uint64_t i, char **addr,
			   size_t *len);
/* May message i be sent, or received, now? */
typedef bool perf_ready_fn(struct perf_stream *s, uint64_t i);
/* Message i is done; size is what test() said. */
typedef void perf_over_fn(struct perf_stream *s, uint64_t i, size_t size);

struct perf_stream {
	struct perf_plug *plug;
	void *comm;
	bool sends;
	int self, peer, channel; /* ranks */
	int group; /* messages of one receive */
	bool early;
	/* What runs now. */
	uint64_t total; /* messages */
	perf_place_fn *place;
	perf_ready_fn *ready; /* NULL: always */
	perf_over_fn *over; /* NULL: nothing to do */
	void *arg;
	uint64_t posted, done; /* messages */
	/* Requests, oldest first. */
	struct {
		void *req;
		uint64_t first;
		int n;
	} slot[PERF_INFLIGHT_MAX];
	unsigned head, tail;
	/* The memory its messages lie in. */
	char *mem;
	size_t mem_len;
	void *mh;
};

/* Run all streams to their end. False after perf_world_fail(). */
bool perf_streams_run(struct perf_world *w, struct perf_stream *s, int n);

const char *perf_result_name(enum nccl_result res);

#endif
