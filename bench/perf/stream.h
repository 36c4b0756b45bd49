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
/* Which of its group the i-th send is, and so its tag. */
typedef unsigned perf_order_fn(struct perf_stream *s, uint64_t i);
/* Message i is done; size is what test() said. */
typedef void perf_over_fn(struct perf_stream *s, uint64_t i, size_t size);

struct perf_stream {
	struct perf_plug *plug;
	void *comm;
	bool sends;
	int self, peer, channel; /* ranks */
	int group; /* messages of one receive */
	unsigned depth; /* requests in flight at most */
	bool early;
	/* What runs now. */
	uint64_t total; /* messages */
	perf_place_fn *place;
	perf_order_fn *order; /* NULL: as they are received */
	perf_ready_fn *ready; /* NULL: always */
	perf_over_fn *over; /* NULL: nothing to do */
	void *arg;
	uint32_t *size; /* that test() said, of each message of a batch */
	uint64_t sizes; /* how many that has room for */
	uint64_t posted, done; /* messages */
	uint64_t placed; /* messages whose memory was made ready */
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

/* Room for the sizes of total messages. False after perf_world_fail(). */
bool perf_stream_sizes(struct perf_world *w, struct perf_stream *s);

/* True the first time that message i is placed: one that the plugin had no room
 * for is placed again, and is the same. */
bool perf_stream_is_new(struct perf_stream *s, uint64_t i);

/* A message of so many bytes has come, as got, with so many wrong bytes in it:
 * counts it, and tells of the first wrong ones. */
void perf_stream_judge(struct perf_world *w, const struct perf_stream *s,
		       uint64_t number, uint64_t len, uint64_t got,
		       uint64_t wrong, struct perf_result *res);

const char *perf_result_name(enum nccl_result res);

#endif
