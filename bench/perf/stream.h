/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream is one direction of one connection. Streams are driven as by NCCL's
 * progress thread: there are at most `depth` requests in flight, only the
 * oldest is tested, and a turn makes one post or test.
 */
#ifndef PERF_STREAM_H
#define PERF_STREAM_H

#include "perf/plug.h"
#include "perf/world.h"

struct perf_stream;

/* Set the address and the size of message `i`. For a receive, *len is the
 * posted size. */
typedef void perf_place_fn(struct perf_stream *s, uint64_t i, char **addr,
			   size_t *len);
/* Return whether message `i` may be posted in the current state. */
typedef bool perf_ready_fn(struct perf_stream *s, uint64_t i);
/* Return the position of send `i` in its group. It determines the tag. */
typedef unsigned perf_order_fn(struct perf_stream *s, uint64_t i);
/* Handle the completion of message `i`. `size` is the size that the plugin's
 * test() reported. */
typedef void perf_over_fn(struct perf_stream *s, uint64_t i, size_t size);

struct perf_stream {
	struct perf_plug *plug;
	void *comm;
	bool sends;
	int self, peer, channel; /* self, peer: ranks */
	int group; /* messages per receive */
	unsigned depth; /* maximum number of requests in flight */
	bool early;
	/* Set by the pattern for the current run. */
	uint64_t total; /* messages */
	perf_place_fn *place;
	perf_order_fn *order; /* NULL: the order of the receives */
	perf_ready_fn *ready; /* NULL: always */
	perf_over_fn *over; /* NULL: nothing to do */
	void *arg;
	uint32_t *size; /* size of each message of a batch, from test() */
	uint64_t sizes; /* length of size[] */
	uint64_t posted, done; /* messages */
	/* Times from isend to completion; NULL: not measured. */
	struct perf_hist *took;
	uint64_t placed; /* messages whose memory was prepared */
	/* Requests, oldest first. */
	struct {
		void *req;
		uint64_t first;
		double posted; /* time of the post, if measured */
		int n;
	} slot[PERF_INFLIGHT_MAX];
	unsigned head, tail;
	/* The memory of the messages. */
	char *mem;
	size_t mem_len;
	void *mh;
};

/* Run all streams until they end. On failure, call perf_world_fail() and return
 * false. */
bool perf_streams_run(struct perf_world *w, struct perf_stream *s, int n);

/* Make s->size long enough for s->total messages. On failure, call
 * perf_world_fail() and return false. */
bool perf_stream_sizes(struct perf_world *w, struct perf_stream *s);

/* Return whether message `i` is prepared for the first time. If the plugin had
 * no room for a message, the message is prepared again with the same
 * content. */
bool perf_stream_is_new(struct perf_stream *s, uint64_t i);

/* Count a message of `len` bytes. The message arrived with size `got`, and
 * `wrong` of its bytes are wrong. Report the first few wrong messages. */
void perf_stream_judge(struct perf_world *w, const struct perf_stream *s,
		       uint64_t number, uint64_t len, uint64_t got,
		       uint64_t wrong, struct perf_result *res);

const char *perf_result_name(enum nccl_result res);

#endif
