/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All patterns but ring. A transfer of an iteration is cut into
 * chunks, each one message; chunk k goes by channel k % channels.
 */
#include "perf/pattern.h"

#include <string.h>

#include "perf/data.h"
#include "perf/random.h"
#include "perf/ring.h"

int perf_pattern_peers(const struct perf_options *opt, int rank, bool sends,
		       int *peer)
{
	int n = opt->nranks, count = 0;

	switch (opt->pattern) {
	case PERF_SENDRECV:
	case PERF_RING:
		if (n > 1)
			peer[count++] = (rank + (sends ? 1 : n - 1)) % n;
		break;
	case PERF_PINGPONG:
		if ((rank ^ 1) < n)
			peer[count++] = rank ^ 1;
		break;
	case PERF_STREAM:
		if ((rank ^ 1) < n && sends == !(rank & 1))
			peer[count++] = rank ^ 1;
		break;
	case PERF_ALLTOALL:
		for (int i = 1; i < n; i++)
			peer[count++] = (rank + (sends ? i : n - i)) % n;
		break;
	}
	return count;
}

/* What one peer gets of an iteration. */
static uint64_t share(const struct perf_options *opt, uint64_t size)
{
	return opt->pattern == PERF_ALLTOALL ? size / (unsigned)opt->nranks
					     : size;
}

size_t perf_pattern_memory(const struct perf_options *opt, bool sends)
{
	if (opt->random_sizes)
		return perf_random_memory(opt);
	if (opt->pattern == PERF_RING)
		return perf_ring_memory(opt, sends);
	return (size_t)share(opt, opt->max > 64 ? opt->max : 64);
}

/* Equal iterations of one size. */
struct run {
	struct perf_rank *r;
	uint64_t bytes; /* to each peer, an iteration */
	uint64_t chunk, chunks;
	uint64_t wrong;
	struct perf_hist *hist;
	double last_pong;
};

/* Chunks of the stream's channel in one iteration. */
static uint64_t per_iteration(const struct perf_stream *s)
{
	const struct run *run = s->arg;
	unsigned channels = (unsigned)run->r->w->opt.channels;

	return (run->chunks + channels - 1 - (unsigned)s->channel) / channels;
}

static void place(struct perf_stream *s, uint64_t i, char **addr, size_t *len)
{
	const struct run *run = s->arg;
	uint64_t k = i % per_iteration(s) * (unsigned)run->r->w->opt.channels +
		     (unsigned)s->channel;
	uint64_t left = run->bytes - k * run->chunk;

	*addr = s->mem + k * run->chunk;
	*len = left < run->chunk ? left : run->chunk;
}

static void received(struct perf_stream *s, uint64_t i, size_t size)
{
	struct run *run = s->arg;
	size_t want;
	char *addr;
	double now;

	place(s, i, &addr, &want);
	/* With the hint the plugin need not know the size. */
	if (size != want && !s->early)
		run->wrong += want > size ? want - size : size - want;
	if (run->hist && s->self < s->peer && s->channel == 0 &&
	    (i + 1) % per_iteration(s) == 0) {
		now = perf_now();
		perf_hist_add(run->hist,
			      (uint64_t)((now - run->last_pong) * 0.5e9));
		run->last_pong = now;
	}
}

/* The lower rank sends when its last ping was answered, the other answers. */
static bool my_turn(struct perf_stream *s, uint64_t i)
{
	const struct run *run = s->arg;
	const struct perf_stream *other = s + run->r->nsend;
	uint64_t per = per_iteration(s), iter = i / per;

	return other->done >= (s->self < s->peer ? iter : iter + 1) * per;
}

static uint64_t stream_key(const struct perf_stream *s, uint64_t round)
{
	const struct run *run = s->arg;
	int from = s->sends ? s->self : s->peer;
	int to = s->sends ? s->peer : s->self;
	uint64_t key = perf_key(run->r->w->opt.seed, round);

	return perf_key(perf_key(key, (unsigned)from), (unsigned)to);
}

static void prepare(struct perf_stream *s, uint64_t round)
{
	for (uint64_t i = 0; i < s->total; i++) {
		size_t len;
		char *addr;

		place(s, i, &addr, &len);
		if (s->sends)
			perf_data_fill(addr, len,
				       perf_key(stream_key(s, round),
						(uint64_t)(addr - s->mem)));
		else
			memset(addr, PERF_POISON, len);
	}
}

static uint64_t compare(struct perf_stream *s, uint64_t round)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < s->total; i++) {
		size_t len;
		char *addr;

		place(s, i, &addr, &len);
		wrong += perf_data_check(addr, len,
					 perf_key(stream_key(s, round),
						  (uint64_t)(addr - s->mem)));
	}
	return wrong;
}

static void set_up(struct run *run, struct perf_rank *r, uint64_t size,
		   uint64_t iters)
{
	const struct perf_options *opt = &r->w->opt;

	run->r = r;
	run->bytes = opt->pattern == PERF_ALLTOALL
			     ? size / (unsigned)opt->nranks
			     : size;
	run->chunk =
		opt->chunk && opt->chunk < run->bytes ? opt->chunk : run->bytes;
	run->chunks =
		run->chunk ? (run->bytes + run->chunk - 1) / run->chunk : 1;
	for (int i = 0; i < r->nsend + r->nrecv; i++) {
		struct perf_stream *s = &r->stream[i];

		s->arg = run;
		s->place = place;
		s->ready = opt->pattern == PERF_PINGPONG && s->sends ? my_turn
								     : NULL;
		s->over = s->sends ? NULL : received;
		s->total = per_iteration(s) * iters;
	}
}

bool perf_pattern_run(struct perf_rank *r, uint64_t size, uint64_t iters,
		      bool check, uint64_t round, struct perf_result *res)
{
	int n = r->nsend + r->nrecv;
	struct run run = { 0 };
	bool ok;

	if (r->w->opt.random_sizes)
		return perf_random_run(r, res);
	if (r->w->opt.pattern == PERF_RING)
		return perf_ring_run(r, size, iters, check, round, res);

	set_up(&run, r, size, iters);
	if (r->w->opt.pattern == PERF_PINGPONG && !check)
		run.hist = &res->hist;
	for (int i = 0; check && i < n; i++)
		prepare(&r->stream[i], round);
	if (!perf_world_barrier(r->w))
		return false;
	run.last_pong = perf_now();
	ok = perf_streams_run(r->w, r->stream, n);
	for (int i = 0; ok && check && i < n; i++)
		run.wrong +=
			r->stream[i].sends ? 0 : compare(&r->stream[i], round);
	res->wrong += run.wrong;
	res->sent +=
		run.bytes * iters * (uint64_t)(r->nsend / r->w->opt.channels);
	return ok;
}
