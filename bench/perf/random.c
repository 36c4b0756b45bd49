/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/random.h"

#include <string.h>

#include "perf/data.h"

/* Beyond the posted size, so that an overrun is seen. */
#define GUARD 64

struct run {
	struct perf_rank *r;
	uint64_t slots, stride;
	uint64_t wrong, sent;
};

static uint64_t slots_of(const struct perf_options *opt)
{
	return (uint64_t)PERF_INFLIGHT_MAX * (unsigned)opt->group;
}

size_t perf_random_memory(const struct perf_options *opt)
{
	return (size_t)(slots_of(opt) * (opt->max + GUARD));
}

static uint64_t key_of(const struct perf_stream *s, uint64_t i)
{
	const struct run *run = s->arg;
	unsigned from = (unsigned)(s->sends ? s->self : s->peer);
	unsigned to = (unsigned)(s->sends ? s->peer : s->self);
	uint64_t key = perf_key(run->r->w->opt.seed, from << 16 | to);

	return perf_key(perf_key(key, (unsigned)s->channel), i);
}

/* Small ones as often as large ones, 0 and the maximum among them. */
static size_t size_of(const struct perf_stream *s, uint64_t i)
{
	const struct run *run = s->arg;
	uint64_t max = run->r->w->opt.max, key = key_of(s, i);
	unsigned bits = 64 - (unsigned)__builtin_clzll(max | 1);
	uint64_t size = perf_mix(key) >> (64 - 1 - key % bits);

	if (key >> 32 & 15)
		return size <= max ? (size_t)size : (size_t)max;
	return key & 1 ? (size_t)max : 0;
}

static char *slot(const struct perf_stream *s, uint64_t i)
{
	const struct run *run = s->arg;

	return s->mem + i % run->slots * run->stride;
}

static void place_send(struct perf_stream *s, uint64_t i, char **addr,
		       size_t *len)
{
	*addr = slot(s, i);
	*len = size_of(s, i);
	perf_data_fill(*addr, *len, key_of(s, i));
}

static void place_recv(struct perf_stream *s, uint64_t i, char **addr,
		       size_t *len)
{
	const struct run *run = s->arg;

	*addr = slot(s, i);
	*len = (size_t)run->r->w->opt.max;
	memset(*addr, PERF_POISON, *len + GUARD);
}

static void received(struct perf_stream *s, uint64_t i, size_t size)
{
	struct run *run = s->arg;
	size_t want = size_of(s, i);
	char *at = slot(s, i);

	if (size != want)
		run->wrong += size > want ? size - want : want - size;
	run->wrong += perf_data_check(at, want, key_of(s, i));
	run->wrong +=
		perf_data_touched(at + want, (size_t)(run->stride - want));
}

static void sent(struct perf_stream *s, uint64_t i, size_t size)
{
	struct run *run = s->arg;

	(void)size;
	run->sent += size_of(s, i);
}

bool perf_random_run(struct perf_rank *r, struct perf_result *res)
{
	struct run run = {
		.r = r,
		.slots = slots_of(&r->w->opt),
		.stride = r->w->opt.max + GUARD,
	};
	bool ok;

	for (int i = 0; i < r->nsend + r->nrecv; i++) {
		struct perf_stream *s = &r->stream[i];

		s->arg = &run;
		s->place = s->sends ? place_send : place_recv;
		s->ready = NULL;
		s->over = s->sends ? sent : received;
		s->total = r->w->opt.random_sizes;
	}
	if (!perf_world_barrier(r->w))
		return false;
	ok = perf_streams_run(r->w, r->stream, r->nsend + r->nrecv);
	res->wrong += run.wrong;
	res->sent += run.sent;
	return ok;
}
