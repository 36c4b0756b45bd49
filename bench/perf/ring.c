/* SPDX-License-Identifier: Apache-2.0 */
/* Pattern ring, see pattern.h. */
#include "perf/pattern.h"

#include <stdlib.h>
#include <string.h>

#include "perf/data.h"

/*
 * The send stream's memory holds the data. The receive stream's memory has a
 * slot for each message in flight. A received message is added to the data or
 * copied into it. A segment is one rank's part of the data. Step s of 2 (n - 1)
 * sends segment (rank - s) mod n. The first n - 1 steps are the reduce-scatter,
 * the others the all-gather.
 */
struct ring {
	struct perf_rank *r;
	struct perf_stream *tx, *rx;
	const struct perf_batch *batch;
	struct perf_result *res;
	uint32_t *data; /* data of the first iteration of the batch */
	/* `stride`: words from one iteration to the next; `fit`: number of
	 * iterations whose data fits into the stream's memory. */
	uint64_t stride, fit;
	uint64_t count; /* words of the channel's slice */
	uint64_t base; /* index of the slice in the whole data */
	uint64_t seg; /* words of each segment except the last */
	uint64_t chunk; /* words of a message */
	uint64_t per_seg; /* messages of a segment */
	uint64_t slot; /* bytes of a slot */
	/* `first`: number of the first step, as in an all-reduce;
	 * `steps`: number of steps. */
	uint64_t first, steps;
	int n, rank;
};

static uint64_t words_of_chunk(const struct perf_options *opt)
{
	uint64_t bytes = opt->chunk ? opt->chunk : opt->max;

	return bytes / sizeof(uint32_t) ? bytes / sizeof(uint32_t) : 1;
}

uint64_t perf_ring_slice(const struct perf_options *opt, uint64_t size)
{
	uint64_t channels = (unsigned)opt->channels;

	return (size / sizeof(uint32_t) + channels - 1) / channels *
	       sizeof(uint32_t);
}

size_t perf_ring_memory(const struct perf_options *opt, bool sends, int streams)
{
	uint64_t max = opt->max > 64 ? opt->max : 64;
	uint64_t slot = words_of_chunk(opt) * sizeof(uint32_t);

	if (sends)
		return (size_t)perf_batch_memory(
			opt, perf_ring_slice(opt, opt->max), streams);
	if (slot > max)
		slot = max;
	return (size_t)(slot * PERF_INFLIGHT_MAX);
}

/* Return the step of message `i`. */
static uint64_t step_of(const struct ring *g, uint64_t i)
{
	return g->first + i / g->per_seg % g->steps;
}

/* Return the words of message `i`. The numbers of sends and receives match:
 * receive `i` has the segment that the previous rank sends as its message
 * `i`. */
static uint32_t *part(const struct ring *g, uint64_t i, bool sends,
		      uint64_t *len)
{
	uint64_t step = step_of(g, i), k = i % g->per_seg;
	uint64_t who =
		(uint64_t)g->rank + 2 * (uint64_t)g->n - step - (sends ? 0 : 1);
	uint64_t first = who % (uint64_t)g->n * g->seg;
	uint64_t end = first + g->seg < g->count ? first + g->seg : g->count;
	uint64_t at = first + k * g->chunk;

	uint64_t iter = i / g->per_seg / g->steps;

	*len = at >= end ? 0 : end - at < g->chunk ? end - at : g->chunk;
	return g->data + iter % g->fit * g->stride + (at < g->count ? at : 0);
}

static void place_send(struct perf_stream *s, uint64_t i, char **addr,
		       size_t *len)
{
	uint64_t n;

	*addr = (char *)part(s->arg, i, true, &n);
	*len = (size_t)n * sizeof(uint32_t);
}

static void place_recv(struct perf_stream *s, uint64_t i, char **addr,
		       size_t *len)
{
	const struct ring *g = s->arg;
	uint64_t n;

	part(g, i, false, &n);
	*addr = s->mem + i % PERF_INFLIGHT_MAX * g->slot;
	*len = (size_t)n * sizeof(uint32_t);
}

/* Return whether send `i` may be posted. A step sends the segment that the
 * previous step received, so send `i` waits for receive `i` - `per_seg`. The
 * first step of an iteration waits for the end of the previous iteration. */
static bool ready_send(struct perf_stream *s, uint64_t i)
{
	const struct ring *g = s->arg;

	return g->rx->done + g->per_seg > i;
}

/* Add message `i` to the data, or copy it into the data. Afterwards its slot is
 * free. */
static void received(struct perf_stream *s, uint64_t i, size_t size)
{
	const struct ring *g = s->arg;
	const uint32_t *from =
		(const uint32_t *)(const void *)(s->mem +
						 i % PERF_INFLIGHT_MAX *
							 g->slot);
	uint64_t n;
	uint32_t *to = part(g, i, false, &n);

	if (s->size)
		s->size[i] = size;
	if (step_of(g, i) >= (uint64_t)(g->n - 1)) {
		memcpy(to, from, n * sizeof(uint32_t));
		return;
	}
	for (uint64_t k = 0; k < n; k++)
		to[k] += from[k];
}

static void set_up(struct ring *g, struct perf_rank *r, int channel,
		   const struct perf_batch *batch)
{
	const struct perf_options *opt = &r->w->opt;
	uint64_t words = batch->size / sizeof(uint32_t);
	uint64_t bytes = perf_ring_slice(opt, batch->size);
	uint64_t slice = bytes / sizeof(uint32_t);

	g->r = r;
	g->n = opt->nranks;
	g->rank = r->rank;
	g->batch = batch;
	g->tx = &r->stream[channel];
	g->rx = &r->stream[r->nsend + channel];
	g->base = slice * (unsigned)channel < words ? slice * (unsigned)channel
						    : words;
	g->count = words - g->base < slice ? words - g->base : slice;
	g->data = (uint32_t *)(void *)g->tx->mem;
	g->stride = perf_batch_stride(bytes) / sizeof(uint32_t);
	g->fit = perf_pattern_iters(r, batch->size);
	g->seg = (g->count + (unsigned)g->n - 1) / (unsigned)g->n;
	g->chunk = words_of_chunk(opt);
	if (g->chunk > g->seg && g->seg)
		g->chunk = g->seg;
	g->per_seg = g->seg ? (g->seg + g->chunk - 1) / g->chunk : 1;
	g->slot = g->chunk * sizeof(uint32_t);
	g->steps = (uint64_t)(g->n - 1) * (opt->pattern == PERF_RING ? 2 : 1);
	g->first = opt->pattern == PERF_ALL_GATHER ? (uint64_t)(g->n - 1) : 0;
	g->tx->arg = g->rx->arg = g;
	g->tx->place = place_send;
	g->rx->place = place_recv;
	g->tx->ready = ready_send;
	g->rx->ready = NULL;
	g->tx->over = NULL;
	g->rx->over = received;
	g->tx->total = g->rx->total = g->steps * g->per_seg * batch->iters;
}

static uint64_t key_of(const struct ring *g, uint64_t iter)
{
	return perf_key(g->batch->key, g->batch->first + iter);
}

static bool fill(struct ring *g)
{
	for (uint64_t iter = 0; iter < g->batch->iters; iter++) {
		uint32_t *data = g->data + iter * g->stride;
		uint64_t key = key_of(g, iter);

		for (uint64_t i = 0; i < g->count; i++)
			data[i] = perf_value(key, g->base + i, g->rank);
	}
	return perf_stream_sizes(g->r->w, g->rx);
}

/* Return how many bytes of the `n` words at `at` differ from the right
 * result. */
static uint64_t wrong_bytes(const struct ring *g, uint64_t iter,
			    const uint32_t *at, uint64_t n)
{
	uint64_t first = g->base + (uint64_t)(at - g->data) - iter * g->stride;
	uint64_t key = key_of(g, iter), wrong = 0;
	/* At the start of an all-gather, each rank has its own part at the
	 * place where a reduce-scatter leaves its sums. */
	int owner = g->seg ? (int)((first - g->base) / g->seg) + g->n - 1 : 0;

	owner %= g->n;
	for (uint64_t i = 0; i < n; i++)
		wrong += at[i] != (g->first ? perf_value(key, first + i, owner)
					    : perf_sum(key, first + i, g->n));
	return wrong * sizeof(*at);
}

/* Judge each message by the part of the result that it carried or completed. A
 * partial sum is judged only at the rank where the sum is complete. */
static void compare(const struct ring *g)
{
	uint64_t per = g->steps * g->per_seg;

	for (uint64_t i = 0; i < g->rx->total; i++) {
		uint64_t n, iter = i / per, wrong = 0;
		const uint32_t *at = part(g, i, false, &n);

		if (step_of(g, i) + 2 >= (uint64_t)g->n)
			wrong = wrong_bytes(g, iter, at, n);
		perf_stream_judge(g->r->w, g->rx, g->batch->first * per + i,
				  n * sizeof(*at), g->rx->size[i], wrong,
				  g->res);
	}
}

static uint64_t sent(const struct ring *g)
{
	uint64_t n = (uint64_t)g->n;

	return g->batch->iters * g->steps * g->count * sizeof(uint32_t) / n;
}

static bool run(struct perf_rank *r, struct ring *g, int channels,
		const struct perf_batch *batch, struct perf_result *res)
{
	bool check = r->w->opt.check, ok = true;
	double begun = perf_now();
	struct perf_lap lap;

	for (int c = 0; ok && c < channels; c++) {
		g[c].res = res;
		set_up(&g[c], r, c, batch);
		ok = !check || fill(&g[c]);
	}
	res->checking += check ? perf_now() - begun : 0;
	if (!ok || !perf_lap_begin(r, &lap) ||
	    !perf_streams_run(r->w, r->stream, r->nsend + r->nrecv) ||
	    !perf_lap_end(r, &lap, batch->timed, res))
		return false;
	begun = perf_now();
	for (int c = 0; check && c < channels; c++)
		compare(&g[c]);
	res->checking += check ? perf_now() - begun : 0;
	for (int c = 0; batch->timed && c < channels; c++)
		res->sent += sent(&g[c]);
	return true;
}

bool perf_ring_run(struct perf_rank *r, const struct perf_batch *batch,
		   struct perf_result *res)
{
	int channels = r->w->opt.channels;
	struct ring *g = calloc((size_t)channels, sizeof(*g));
	bool ok = g && run(r, g, channels, batch, res);

	if (!g)
		perf_world_fail(r->w, r->rank,
				"no memory for rings (give fewer --channels)");
	free(g);
	return ok;
}
