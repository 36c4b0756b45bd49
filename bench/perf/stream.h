/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream is one direction of one connection. It is driven as NCCL's progress
 * thread does: there are at most `depth` requests in flight, only the oldest is
 * tested, and a turn makes one post or test.
 */
#ifndef PERF_STREAM_H
#define PERF_STREAM_H

#include "perf/plug.h"
#include "perf/world.h"

struct perf_stream;

/* Get the address and the size of message i (for a receive: the posted
 * size). */
typedef void perf_place_fn(struct perf_stream *s, uint64_t i, char **addr,
			   size_t *len);
/* Return whether message i may be sent, or received, now. */
typedef bool perf_ready_fn(struct perf_stream *s, uint64_t i);
/* Return the place of send i in its group, which determines its tag. */
typedef unsigned perf_order_fn(struct perf_stream *s, uint64_t i);
/* Handle the end of message i. size is the one that the plugin's test()
 * reported. */
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
	uint32_t *size; /* of each message of a batch, from test() */
	uint64_t sizes; /* length of size[] */
	uint64_t posted, done; /* messages */
	struct perf_hist *took; /* from isend to its end; NULL: not measured */
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

/* Run all streams until they end. Returns false after perf_world_fail(). */
bool perf_streams_run(struct perf_world *w, struct perf_stream *s, int n);

/* Make s->size long enough for s->total messages. Returns false after
 * perf_world_fail(). */
bool perf_stream_sizes(struct perf_world *w, struct perf_stream *s);

/* Return whether message i is placed for the first time. If the plugin had no
 * room for a message, it is placed again, and must not change. */
bool perf_stream_is_new(struct perf_stream *s, uint64_t i);

/* Count a message of len bytes that arrived with size `got` and with `wrong`
 * wrong bytes. Report the first wrong messages. */
void perf_stream_judge(struct perf_world *w, const struct perf_stream *s,
		       uint64_t number, uint64_t len, uint64_t got,
		       uint64_t wrong, struct perf_result *res);

const char *perf_result_name(enum nccl_result res);

#endif
