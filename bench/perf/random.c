/* SPDX-License-Identifier: Apache-2.0 */
/* Random-size runs, see pattern.h. */
#include "perf/pattern.h"

#include <string.h>

#include "perf/data.h"

/* Bytes after the posted size, checked for overruns. */
#define GUARD 64

struct random_run {
	struct perf_rank *r;
	const struct perf_batch *batch;
	struct perf_result *res;
	uint64_t slots, stride;
	bool check;
};

static uint64_t slots_of(const struct perf_options *opt)
{
	return (uint64_t)PERF_INFLIGHT_MAX * (unsigned)opt->group;
}

size_t perf_random_memory(const struct perf_options *opt)
{
	return (size_t)(slots_of(opt) * (opt->max + GUARD));
}

/* Return the size of message `i`. Small sizes are as frequent as large ones.
 * The sizes include 0 and the maximum. */
static size_t size_of(const struct perf_stream *s, uint64_t i)
{
	const struct random_run *run = s->arg;
	uint64_t max = run->r->w->opt.max;
	uint64_t key = perf_key(perf_stream_key(s, run->batch), i);
	unsigned bits = 64 - (unsigned)__builtin_clzll(max | 1);
	uint64_t size = perf_mix(key) >> (64 - 1 - key % bits);

	if (key >> 32 & 15)
		return size <= max ? (size_t)size : (size_t)max;
	return key & 1 ? (size_t)max : 0;
}

static char *slot(const struct perf_stream *s, uint64_t i)
{
	const struct random_run *run = s->arg;

	return s->mem + i % run->slots * run->stride;
}

static void place_send(struct perf_stream *s, uint64_t i, char **addr,
		       size_t *len)
{
	const struct random_run *run = s->arg;
	double begun;

	*addr = slot(s, i);
	*len = size_of(s, i);
	if (!run->check || !perf_stream_is_new(s, i))
		return;
	begun = perf_now();
	perf_data_fill(*addr, *len, perf_stream_key(s, run->batch), i);
	run->res->checking += perf_now() - begun;
}

static void place_recv(struct perf_stream *s, uint64_t i, char **addr,
		       size_t *len)
{
	const struct random_run *run = s->arg;
	double begun;

	*addr = slot(s, i);
	*len = (size_t)run->r->w->opt.max;
	if (!run->check || !perf_stream_is_new(s, i))
		return;
	begun = perf_now();
	memset(*addr, PERF_POISON, *len + GUARD);
	run->res->checking += perf_now() - begun;
}

static void received(struct perf_stream *s, uint64_t i, size_t size)
{
	const struct random_run *run = s->arg;
	size_t want = size_of(s, i);
	const char *at = slot(s, i);
	double begun = perf_now();
	uint64_t wrong;

	if (!run->check)
		return;
	wrong = perf_data_check(at, want, perf_stream_key(s, run->batch), i) +
		perf_data_touched(at + want, (size_t)(run->stride - want));
	perf_stream_judge(run->r->w, s, i, want, size, wrong, run->res);
	run->res->checking += perf_now() - begun;
}

static void sent(struct perf_stream *s, uint64_t i, size_t size)
{
	const struct random_run *run = s->arg;

	(void)size;
	run->res->sent += size_of(s, i);
}

bool perf_random_run(struct perf_rank *r, const struct perf_batch *batch,
		     struct perf_result *res)
{
	struct random_run run = {
		.r = r,
		.batch = batch,
		.res = res,
		.slots = slots_of(&r->w->opt),
		.stride = r->w->opt.max + GUARD,
		.check = r->w->opt.check,
	};
	struct perf_lap lap;

	for (int i = 0; i < r->nsend + r->nrecv; i++) {
		struct perf_stream *s = &r->stream[i];

		s->arg = &run;
		s->place = s->sends ? place_send : place_recv;
		s->ready = NULL;
		s->over = s->sends ? sent : received;
		s->total = r->w->opt.random_sizes;
		s->placed = 0;
	}
	return perf_lap_begin(r, &lap) &&
	       perf_streams_run(r->w, r->stream, r->nsend + r->nrecv) &&
	       perf_lap_end(r, &lap, true, res);
}
