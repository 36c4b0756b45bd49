/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/ring.h"

#include <stdlib.h>
#include <string.h>

#include "perf/data.h"

/*
 * The send stream's memory holds the data; the receive stream's holds a slot
 * for each message in flight, from which it is added or copied. A segment is
 * one rank's part of the data; step s of 2 (n - 1) sends segment (rank - s).
 */
struct ring {
	struct perf_rank *r;
	struct perf_stream *tx, *rx;
	float *data;
	uint64_t count; /* floats of the channel's slice */
	uint64_t base; /* index of its first in the whole */
	uint64_t seg; /* floats of a segment, the last may have fewer */
	uint64_t chunk; /* floats of a message */
	uint64_t per_seg; /* messages of a segment */
	uint64_t slot; /* bytes */
	int n, rank;
};

static uint64_t floats_of_chunk(const struct perf_options *opt)
{
	uint64_t bytes = opt->chunk ? opt->chunk : opt->max;

	return bytes / sizeof(float) ? bytes / sizeof(float) : 1;
}

size_t perf_ring_memory(const struct perf_options *opt, bool sends)
{
	uint64_t max = opt->max > 64 ? opt->max : 64;
	uint64_t slot = floats_of_chunk(opt) * sizeof(float);

	if (sends)
		return (size_t)max;
	if (slot > max)
		slot = max;
	return (size_t)(slot * PERF_INFLIGHT_MAX);
}

static uint64_t steps(const struct ring *g)
{
	return 2 * (uint64_t)(g->n - 1);
}

/* Which floats of the slice message i moves; sends and receives number alike,
 * a receive's segment is what its peer sends in that step. */
static float *part(const struct ring *g, uint64_t i, bool sends, uint64_t *len)
{
	uint64_t step = i / g->per_seg % steps(g), k = i % g->per_seg;
	uint64_t who =
		(uint64_t)g->rank + 2 * (uint64_t)g->n - step - (sends ? 0 : 1);
	uint64_t first = who % (uint64_t)g->n * g->seg;
	uint64_t end = first + g->seg < g->count ? first + g->seg : g->count;
	uint64_t at = first + k * g->chunk;

	*len = at >= end ? 0 : end - at < g->chunk ? end - at : g->chunk;
	return g->data + (at < g->count ? at : 0);
}

static void place_send(struct perf_stream *s, uint64_t i, char **addr,
		       size_t *len)
{
	uint64_t n;

	*addr = (char *)part(s->arg, i, true, &n);
	*len = (size_t)n * sizeof(float);
}

static void place_recv(struct perf_stream *s, uint64_t i, char **addr,
		       size_t *len)
{
	const struct ring *g = s->arg;
	uint64_t n;

	part(g, i, false, &n);
	*addr = s->mem + i % PERF_INFLIGHT_MAX * g->slot;
	*len = (size_t)n * sizeof(float);
}

/* What a step sends, the step before has received; an iteration begins when
 * the last one is over here. */
static bool ready_send(struct perf_stream *s, uint64_t i)
{
	const struct ring *g = s->arg;

	return g->rx->done + g->per_seg > i;
}

/* The slot was emptied when its message was taken. */
static void received(struct perf_stream *s, uint64_t i, size_t size)
{
	const struct ring *g = s->arg;
	const float *from =
		(const float *)(const void *)(s->mem +
					      i % PERF_INFLIGHT_MAX * g->slot);
	uint64_t n;
	float *to = part(g, i, false, &n);

	(void)size;
	if (i / g->per_seg % steps(g) >= (uint64_t)(g->n - 1)) {
		memcpy(to, from, n * sizeof(float));
		return;
	}
	for (uint64_t k = 0; k < n; k++)
		to[k] += from[k];
}

static void set_up(struct ring *g, struct perf_rank *r, int channel,
		   uint64_t floats, uint64_t iters)
{
	const struct perf_options *opt = &r->w->opt;
	uint64_t channels = (uint64_t)opt->channels;
	uint64_t slice = (floats + channels - 1) / channels;

	g->r = r;
	g->n = opt->nranks;
	g->rank = r->rank;
	g->tx = &r->stream[channel];
	g->rx = &r->stream[r->nsend + channel];
	g->base = slice * (unsigned)channel < floats ? slice * (unsigned)channel
						     : floats;
	g->count = floats - g->base < slice ? floats - g->base : slice;
	g->data = (float *)(void *)g->tx->mem;
	g->seg = (g->count + (unsigned)g->n - 1) / (unsigned)g->n;
	g->chunk = floats_of_chunk(opt);
	if (g->chunk > g->seg && g->seg)
		g->chunk = g->seg;
	g->per_seg = g->seg ? (g->seg + g->chunk - 1) / g->chunk : 1;
	g->slot = g->chunk * sizeof(float);
	g->tx->arg = g->rx->arg = g;
	g->tx->place = place_send;
	g->rx->place = place_recv;
	g->tx->ready = ready_send;
	g->rx->ready = NULL;
	g->tx->over = NULL;
	g->rx->over = received;
	g->tx->total = g->rx->total = steps(g) * g->per_seg * iters;
}

static void fill(struct ring *g, uint64_t key)
{
	for (uint64_t i = 0; i < g->count; i++)
		g->data[i] = perf_value(key, g->base + i, g->rank);
}

static uint64_t compare(const struct ring *g, uint64_t key)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < g->count; i++)
		wrong += g->data[i] != perf_sum(key, g->base + i, g->n);
	return wrong;
}

bool perf_ring_run(struct perf_rank *r, uint64_t size, uint64_t iters,
		   bool check, uint64_t round, struct perf_result *res)
{
	int channels = r->w->opt.channels;
	struct ring *g = calloc((size_t)channels, sizeof(*g));
	uint64_t key = perf_key(r->w->opt.seed, round);
	bool ok;

	if (!g)
		return false;
	for (int c = 0; c < channels; c++) {
		set_up(&g[c], r, c, size / sizeof(float), iters);
		fill(&g[c], key);
	}
	ok = perf_world_barrier(r->w) &&
	     perf_streams_run(r->w, r->stream, r->nsend + r->nrecv);
	for (int c = 0; ok && check && c < channels; c++)
		res->wrong += compare(&g[c], key) * sizeof(float);
	for (int c = 0; c < channels; c++)
		res->sent += g[c].n ? iters * 2 * (uint64_t)(g[c].n - 1) *
					      g[c].count * sizeof(float) /
					      (uint64_t)g[c].n
				    : 0;
	free(g);
	return ok;
}
