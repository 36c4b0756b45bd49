/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream is one direction of one connection, driven like NCCL's progress
 * thread does: at most `depth` requests in flight, only the oldest is tested,
 * one action per turn.
 */
#ifndef PERF_STREAM_H
#define PERF_STREAM_H

#include "perf/plug.h"
#include "perf/world.h"

struct perf_stream;

/* Where message i lies and how long it is (for a receive: the posted size). */
typedef void perf_place_fn(struct perf_stream *s, uint64_t i, char **addr,
			   size_t *len);
/* May message i be sent, or received, now? */
typedef bool perf_ready_fn(struct perf_stream *s, uint64_t i);
/* The place in its group of the i-th send, which determines its tag. */
typedef unsigned perf_order_fn(struct perf_stream *s, uint64_t i);
/* Called when message i is done; size is what the plugin's test() reported. */
typedef void perf_over_fn(struct perf_stream *s, uint64_t i, size_t size);

struct perf_stream {
	struct perf_plug *plug;
	void *comm;
	bool sends;
	int self, peer, channel; /* self, peer: ranks */
	int group; /* messages per receive */
	unsigned depth; /* requests in flight at most */
	bool early;
	/* Set by the pattern for the present run. */
	uint64_t total; /* messages */
	perf_place_fn *place;
	perf_order_fn *order; /* NULL: in the receives' order */
	perf_ready_fn *ready; /* NULL: always */
	perf_over_fn *over; /* NULL: nothing to do */
	void *arg;
	uint32_t *size; /* by test(), of each message of a batch */
	uint64_t sizes; /* length of size[] */
	uint64_t posted, done; /* messages */
	struct perf_hist *took; /* from isend to its end; NULL: not measured */
	uint64_t placed; /* messages whose memory was prepared */
	/* Requests, oldest first. */
	struct {
		void *req;
		uint64_t first;
		double posted; /* when, if that is measured */
		int n;
	} slot[PERF_INFLIGHT_MAX];
	unsigned head, tail;
	/* The memory in which the messages lie. */
	char *mem;
	size_t mem_len;
	void *mh;
};

/* Run all streams to their end. False after perf_world_fail(). */
bool perf_streams_run(struct perf_world *w, struct perf_stream *s, int n);

/* Make s->size long enough for s->total messages. False after
 * perf_world_fail(). */
bool perf_stream_sizes(struct perf_world *w, struct perf_stream *s);

/* True the first time that message i is placed. A message that the plugin had
 * no room for is placed again and must stay the same. */
bool perf_stream_is_new(struct perf_stream *s, uint64_t i);

/* Count a message of len bytes that arrived with size `got` and `wrong` wrong
 * bytes, and report the first messages that are wrong. */
void perf_stream_judge(struct perf_world *w, const struct perf_stream *s,
		       uint64_t number, uint64_t len, uint64_t got,
		       uint64_t wrong, struct perf_result *res);

const char *perf_result_name(enum nccl_result res);

#endif
