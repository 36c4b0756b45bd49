/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The patterns other than ring and nccl. The bytes that an iteration sends to a
 * peer are cut into chunks. Each chunk is a message, and chunk k uses channel
 * k % channels.
 */
#include "perf/pattern.h"

#include <string.h>

#include "perf/data.h"

/* Bytes of all buffers of a rank. The buffers are larger if one iteration needs
 * more. */
#define RANK_MEMORY (32ull << 20)
/* The maximum number of iterations in a batch. The number is low enough that
 * data is checked several times a second. */
#define ITERS_MAX 4096
#define LINE 64

uint64_t perf_batch_stride(uint64_t bytes)
{
	return bytes ? (bytes + LINE - 1) / LINE * LINE : LINE;
}

uint64_t perf_batch_memory(const struct perf_options *opt, uint64_t bytes,
			   int streams)
{
	uint64_t stride = perf_batch_stride(bytes), most = ITERS_MAX;
	uint64_t share = RANK_MEMORY / (unsigned)(streams ? streams : 1);
	uint64_t asked = opt->iters > opt->warmup ? opt->iters : opt->warmup;

	if (!perf_is_steady(opt) && asked < most)
		most = asked;
	if (!opt->check)
		most = 1;
	if (stride * most < share)
		share = stride * most;
	return share > stride ? share : stride;
}

uint64_t perf_batch_iters(uint64_t memory, uint64_t bytes)
{
	uint64_t n = memory / perf_batch_stride(bytes);

	return n == 0 ? 1 : n < ITERS_MAX ? n : ITERS_MAX;
}

bool perf_lap_begin(struct perf_rank *r, struct perf_lap *lap)
{
	lap->leads = perf_world_leads(r->w, r->rank);
	lap->proxies = lap->leads ? perf_proxy_cpu(&r->w->opt) : 0;
	if (!perf_world_barrier(r->w))
		return false;
	lap->cpu = perf_cpu();
	lap->begun = perf_now();
	return true;
}

bool perf_lap_end(struct perf_rank *r, const struct perf_lap *lap, bool timed,
		  struct perf_result *res)
{
	double cpu = perf_cpu() - lap->cpu, own = perf_now() - lap->begun;
	double proxies;

	if (!perf_world_barrier(r->w))
		return false;
	if (!timed)
		return true;
	/* Between hosts a barrier takes a round trip of TCP, which must not be
	 * measured, so use the rank's own time. The report uses the slowest
	 * rank. */
	res->seconds += r->w->node < 0 ? perf_now() - lap->begun : own;
	res->cpu += cpu;
	if (!lap->leads)
		return true;
	proxies = perf_proxy_cpu(&r->w->opt);
	if (lap->proxies < 0 || proxies < 0)
		res->proxies = -1;
	else if (res->proxies >= 0)
		res->proxies += proxies - lap->proxies;
	return true;
}

int perf_pattern_peers(const struct perf_options *opt, int rank, bool sends,
		       int *peer)
{
	int n = opt->nranks, count = 0;

	switch (opt->pattern) {
	case PERF_SENDRECV:
	case PERF_RING:
	case PERF_REDUCE_SCATTER:
	case PERF_ALL_GATHER:
	case PERF_NCCL:
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
	case PERF_PATTERNS:
		break;
	}
	return count;
}

/* Return how many bytes each peer gets in an iteration. */
static uint64_t share(const struct perf_options *opt, uint64_t size)
{
	return opt->pattern == PERF_ALLTOALL ? size / (unsigned)opt->nranks
					     : size;
}

size_t perf_pattern_memory(const struct perf_options *opt, bool sends,
			   int streams)
{
	if (opt->random_sizes)
		return perf_random_memory(opt);
	if (opt->pattern == PERF_NCCL)
		return perf_steps_memory(opt);
	if (perf_is_ring(opt))
		return perf_ring_memory(opt, sends, streams);
	return (size_t)perf_batch_memory(opt, share(opt, opt->max), streams);
}

uint64_t perf_pattern_iters(const struct perf_rank *r, uint64_t size)
{
	const struct perf_options *opt = &r->w->opt;
	uint64_t bytes = perf_is_ring(opt) ? perf_ring_slice(opt, size)
					   : share(opt, size);

	/* Without checking, iterations may overwrite each other. */
	return opt->check ? perf_batch_iters(r->stream[0].mem_len, bytes) : 1;
}

uint64_t perf_stream_key(const struct perf_stream *s,
			 const struct perf_batch *batch)
{
	unsigned from = (unsigned)(s->sends ? s->self : s->peer);
	unsigned to = (unsigned)(s->sends ? s->peer : s->self);

	return perf_key(perf_key(batch->key, from << 16 | to),
			(unsigned)s->channel);
}

struct pattern_run {
	struct perf_rank *r;
	const struct perf_batch *batch;
	struct perf_result *res;
	uint64_t bytes; /* bytes sent to each peer per iteration */
	uint64_t chunk, chunks;
	/* `stride`: bytes from one iteration to the next; `fit`: number of
	 * iterations whose data fits into a buffer. */
	uint64_t stride, fit;
	double last_pong;
};

/* Return the number of chunks of the stream's channel in one iteration. */
static uint64_t per_iteration(const struct perf_stream *s)
{
	const struct pattern_run *run = s->arg;
	unsigned channels = (unsigned)run->r->w->opt.channels;

	return (run->chunks + channels - 1 - (unsigned)s->channel) / channels;
}

static void place(struct perf_stream *s, uint64_t i, char **addr, size_t *len)
{
	const struct pattern_run *run = s->arg;
	uint64_t per = per_iteration(s), iter = i / per;
	uint64_t k = i % per * (unsigned)run->r->w->opt.channels +
		     (unsigned)s->channel;
	uint64_t left = run->bytes - k * run->chunk;

	*addr = s->mem + iter % run->fit * run->stride + k * run->chunk;
	*len = left < run->chunk ? left : run->chunk;
}

/* Return whether the latency of iteration `iter` counts. In large batches the
 * first iteration does not count, since it includes the wait for the other rank
 * to begin. */
static bool counts(const struct pattern_run *run, uint64_t iter)
{
	return run->batch->timed && (iter > 0 || run->batch->iters < 64);
}

static void received(struct perf_stream *s, uint64_t i, size_t size)
{
	struct pattern_run *run = s->arg;
	double now;

	if (s->size)
		s->size[i] = size;
	if (run->r->w->opt.pattern == PERF_PINGPONG && s->self < s->peer &&
	    s->channel == 0 && (i + 1) % per_iteration(s) == 0) {
		now = perf_now();
		if (counts(run, i / per_iteration(s)))
			perf_hist_add(
				&run->res->hist,
				(uint64_t)((now - run->last_pong) * 0.5e9));
		run->last_pong = now;
	}
}

/* In ping-pong, return whether this rank may send message `i`. The lower rank
 * sends after it has received the answer to its previous message, the higher
 * rank after it has received the message to answer. */
static bool my_turn(struct perf_stream *s, uint64_t i)
{
	const struct pattern_run *run = s->arg;
	const struct perf_stream *other = s + run->r->nsend;
	uint64_t per = per_iteration(s), iter = i / per;

	return other->done >= (s->self < s->peer ? iter : iter + 1) * per;
}

/* Return the number of messages of the stream before this batch. */
static uint64_t before(const struct perf_stream *s)
{
	const struct pattern_run *run = s->arg;

	return run->batch->first * per_iteration(s);
}

static bool prepare(struct perf_stream *s)
{
	const struct pattern_run *run = s->arg;
	uint64_t key = perf_stream_key(s, run->batch), first = before(s);
	size_t len;
	char *addr;

	if (!s->sends) {
		memset(s->mem, PERF_POISON,
		       (size_t)(run->stride * run->batch->iters));
		return perf_stream_sizes(run->r->w, s);
	}
	for (uint64_t i = 0; i < s->total; i++) {
		place(s, i, &addr, &len);
		perf_data_fill(addr, len, key, first + i);
	}
	return true;
}

/* Return how many bytes of the gap between two iterations were written, which
 * is an error. The gap follows the last chunk; for other chunks, return 0. */
static uint64_t beyond(const struct pattern_run *run, const char *end,
		       uint64_t k)
{
	return k + 1 < run->chunks
		       ? 0
		       : perf_data_touched(end,
					   (size_t)(run->stride - run->bytes));
}

static void compare_one(struct perf_stream *s, uint64_t i, uint64_t key)
{
	struct pattern_run *run = s->arg;
	uint64_t per = per_iteration(s), number = before(s) + i, wrong;
	unsigned channels = (unsigned)run->r->w->opt.channels;
	size_t len;
	char *addr;

	place(s, i, &addr, &len);
	wrong = perf_data_check(addr, len, key, number) +
		beyond(run, addr + len,
		       i % per * channels + (unsigned)s->channel);
	/* With early completion the plugin may report no size. */
	perf_stream_judge(run->r->w, s, number, len,
			  s->early ? len : s->size[i], wrong, run->res);
}

static void compare(struct perf_stream *s)
{
	const struct pattern_run *run = s->arg;
	uint64_t key = perf_stream_key(s, run->batch);

	for (uint64_t i = 0; i < s->total; i++)
		compare_one(s, i, key);
}

static void set_up(struct pattern_run *run, struct perf_rank *r,
		   const struct perf_batch *batch)
{
	const struct perf_options *opt = &r->w->opt;

	run->r = r;
	run->batch = batch;
	run->bytes = share(opt, batch->size);
	run->chunk =
		opt->chunk && opt->chunk < run->bytes ? opt->chunk : run->bytes;
	run->chunks =
		run->chunk ? (run->bytes + run->chunk - 1) / run->chunk : 1;
	run->stride = perf_batch_stride(run->bytes);
	run->fit = perf_pattern_iters(r, batch->size);
	for (int i = 0; i < r->nsend + r->nrecv; i++) {
		struct perf_stream *s = &r->stream[i];

		s->arg = run;
		s->place = place;
		s->ready = opt->pattern == PERF_PINGPONG && s->sends ? my_turn
								     : NULL;
		s->over = s->sends ? NULL : received;
		s->total = per_iteration(s) * batch->iters;
	}
}

static bool run_chunks(struct perf_rank *r, const struct perf_batch *batch,
		       struct perf_result *res)
{
	int n = r->nsend + r->nrecv;
	struct pattern_run run = { .res = res };
	bool ok = true, check = r->w->opt.check;
	struct perf_lap lap;
	double begun = perf_now();

	set_up(&run, r, batch);
	for (int i = 0; ok && check && i < n; i++)
		ok = prepare(&r->stream[i]);
	res->checking += check ? perf_now() - begun : 0;
	if (!ok || !perf_lap_begin(r, &lap))
		return false;
	run.last_pong = lap.begun;
	if (!perf_streams_run(r->w, r->stream, n) ||
	    !perf_lap_end(r, &lap, batch->timed, res))
		return false;
	begun = perf_now();
	for (int i = r->nsend; check && i < n; i++)
		compare(&r->stream[i]);
	res->checking += check ? perf_now() - begun : 0;
	if (batch->timed)
		res->sent += run.bytes * batch->iters *
			     (uint64_t)(r->nsend / r->w->opt.channels);
	return true;
}

bool perf_pattern_run(struct perf_rank *r, const struct perf_batch *batch,
		      struct perf_result *res)
{
	/* In pingpong, measure the round trip. */
	for (int i = 0; i < r->nsend; i++)
		r->stream[i].took =
			batch->timed && r->w->opt.pattern != PERF_PINGPONG
				? &res->hist
				: NULL;
	if (r->w->opt.random_sizes)
		return perf_random_run(r, batch, res);
	if (perf_is_ring(&r->w->opt))
		return perf_ring_run(r, batch, res);
	if (r->w->opt.pattern == PERF_NCCL)
		return perf_steps_run(r, batch, res);
	return run_chunks(r, batch, res);
}
