/* SPDX-License-Identifier: Apache-2.0 */
/* Post and test the requests of a rank's streams, and count wrong messages. */
#include "perf/stream.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *perf_result_name(enum nccl_result res)
{
	static const char *const name[] = {
		"success",	  "unhandled CUDA error", "system error",
		"internal error", "invalid argument",	  "invalid usage",
		"remote error",	  "in progress",
	};

	return (unsigned)res < sizeof(name) / sizeof(name[0]) ? name[res] : "?";
}

static int say(struct perf_world *w, struct perf_stream *s, const char *call,
	       enum nccl_result res)
{
	perf_world_fail(
		w, s->self,
		"%s %s rank %d, channel %d, message %llu: %s (%d; its WARN line says more)",
		call, s->sends ? "to" : "from", s->peer, s->channel,
		(unsigned long long)s->done, perf_result_name(res), (int)res);
	return -1;
}

/* Return the tag of message `i`. A message has the tag of its receive, even if
 * the messages of a group are sent in another order. */
static int tag_of(struct perf_stream *s, uint64_t i)
{
	int from = s->sends ? s->self : s->peer;
	unsigned nth =
		s->order ? s->order(s, i) : (unsigned)(i % (unsigned)s->group);

	return s->group > 1 ? from * PERF_GROUP_MAX + (int)nth : from;
}

static enum nccl_result post_recv(struct perf_stream *s, int n, void **req)
{
	void *addr[PERF_GROUP_MAX], *mh[PERF_GROUP_MAX];
	size_t len[PERF_GROUP_MAX];
	int tag[PERF_GROUP_MAX];

	for (int k = 0; k < n; k++) {
		char *at;

		s->place(s, s->posted + (unsigned)k, &at, &len[k]);
		addr[k] = at;
		mh[k] = s->mh;
		tag[k] = tag_of(s, s->posted + (unsigned)k);
	}
	*req = s->early && n == 1 ? (void *)NCCL_NET_OPTIONAL_RECV_COMPLETION
				  : NULL;
	return perf_plug_irecv(s->plug, s->comm, n, addr, len, tag, mh, req);
}

static enum nccl_result post_send(struct perf_stream *s, void **req)
{
	size_t len;
	char *addr;

	s->place(s, s->posted, &addr, &len);
	*req = NULL;
	return perf_plug_isend(s->plug, s->comm, addr, len,
			       tag_of(s, s->posted), s->mh, req);
}

static bool may_post(struct perf_stream *s)
{
	return s->posted < s->total && s->head - s->tail < s->depth &&
	       (!s->ready || s->ready(s, s->posted));
}

/* Post the next request. Returns 1: posted; 0: the plugin had no room; -1:
 * failed. */
static int post(struct perf_world *w, struct perf_stream *s)
{
	uint64_t left = s->total - s->posted;
	int n = s->sends ? 1 : s->group;
	enum nccl_result res;
	unsigned at = s->head % PERF_INFLIGHT_MAX;
	void *req;

	if ((uint64_t)n > left)
		n = (int)left;
	res = s->sends ? post_send(s, &req) : post_recv(s, n, &req);
	if (res != NCCL_SUCCESS)
		return say(w, s, s->sends ? "isend" : "irecv", res);
	if (!req)
		return 0;
	s->slot[at].req = req;
	s->slot[at].first = s->posted;
	s->slot[at].n = n;
	if (s->took)
		s->slot[at].posted = perf_now();
	s->head++;
	s->posted += (unsigned)n;
	return 1;
}

/* Test the oldest request. Returns 1: it is done; 0: not yet; -1: failed. */
static int test(struct perf_world *w, struct perf_stream *s)
{
	unsigned at = s->tail % PERF_INFLIGHT_MAX;
	int sizes[PERF_GROUP_MAX] = { 0 }, done = 0;
	enum nccl_result res;

	res = perf_plug_test(s->plug, s->slot[at].req, &done, sizes);
	if (res != NCCL_SUCCESS)
		return say(w, s, "test", res);
	if (!done)
		return 0;
	s->tail++;
	if (s->took)
		perf_hist_add(
			s->took,
			(uint64_t)((perf_now() - s->slot[at].posted) * 1e9));
	for (int k = 0; k < s->slot[at].n; k++) {
		if (s->over)
			s->over(s, s->slot[at].first + (unsigned)k,
				(size_t)sizes[k]);
		s->done++;
	}
	return 1;
}

static void stuck(struct perf_world *w, struct perf_stream *s, int n)
{
	for (int i = 0; i < n; i++) {
		if (s[i].done == s[i].total)
			continue;
		perf_world_fail(
			w, s[i].self,
			"stuck for %.0f s: %s rank %d, channel %d: %llu "
			"of %llu messages done, %u requests in flight",
			w->opt.timeout, s[i].sends ? "send to" : "receive from",
			s[i].peer, s[i].channel, (unsigned long long)s[i].done,
			(unsigned long long)s[i].total, s[i].head - s[i].tail);
	}
}

/* For each stream that is not done, make one post or one test. For each stream
 * that ends, decrement *left. Returns the number of streams that made progress,
 * or -1. */
static int turn(struct perf_world *w, struct perf_stream *s, int n, int *left)
{
	int moved = 0;

	for (int i = 0; i < n; i++) {
		int rc = 0;

		if (s[i].done == s[i].total)
			continue;
		if (may_post(&s[i]))
			rc = post(w, &s[i]);
		if (rc == 0 && s[i].head != s[i].tail)
			rc = test(w, &s[i]);
		if (rc < 0)
			return -1;
		moved += rc > 0;
		*left -= s[i].done == s[i].total;
	}
	return moved;
}

bool perf_streams_run(struct perf_world *w, struct perf_stream *s, int n)
{
	double moved = perf_now();
	unsigned idle = 0;
	int left = 0;

	for (int i = 0; i < n; i++) {
		s[i].posted = s[i].done = 0;
		left += s[i].total > 0;
	}
	while (left > 0) {
		int rc = turn(w, s, n, &left);

		if (rc < 0)
			return false;
		if (rc > 0) {
			idle = 0;
			continue;
		}
		sched_yield();
		if (idle++ == 0)
			moved = perf_now();
		if (idle % 256)
			continue;
		if (perf_world_failed(w))
			return false;
		if (perf_now() - moved > w->opt.timeout) {
			stuck(w, s, n);
			return false;
		}
	}
	return true;
}

/* The maximum number of lines that a run prints about wrong messages. */
#define LINES_MAX 16

bool perf_stream_sizes(struct perf_world *w, struct perf_stream *s)
{
	if (s->sizes >= s->total)
		return true;
	free(s->size);
	s->size = calloc((size_t)s->total, sizeof(*s->size));
	s->sizes = s->size ? s->total : 0;
	if (!s->size)
		perf_world_fail(w, s->self,
				"no memory for %" PRIu64
				" messages of a batch (give a larger --chunk)",
				s->total);
	return s->size != NULL;
}

bool perf_stream_is_new(struct perf_stream *s, uint64_t i)
{
	if (s->placed > i)
		return false;
	s->placed = i + 1;
	return true;
}

static void tell(struct perf_world *w, const struct perf_stream *s,
		 uint64_t number, uint64_t len, uint64_t got, uint64_t wrong)
{
	char size[64] = "";

	if (atomic_fetch_add(&w->told, 1) >= LINES_MAX)
		return;
	if (got != len)
		snprintf(size, sizeof(size), ", its size %" PRIu64, got);
	fprintf(stderr,
		"mpib-perf: rank %d: message %" PRIu64
		" from rank %d, channel %d: of %" PRIu64 " bytes %" PRIu64
		" are wrong%s\n",
		s->self, number, s->peer, s->channel, len, wrong, size);
}

void perf_stream_judge(struct perf_world *w, const struct perf_stream *s,
		       uint64_t number, uint64_t len, uint64_t got,
		       uint64_t wrong, struct perf_result *res)
{
	uint64_t off = got > len ? got - len : len - got;

	res->messages++;
	res->bytes += len;
	if (!wrong && !off)
		return;
	tell(w, s, number, len, got, wrong);
	res->wrong_messages++;
	res->wrong += wrong > off ? wrong : off;
}
