/* SPDX-License-Identifier: Apache-2.0 */
/* Pattern nccl, see pattern.h. */
#include "perf/pattern.h"

#include <string.h>

#include "perf/data.h"

struct run {
	struct perf_rank *r;
	const struct perf_batch *batch;
	struct perf_result *res;
	/* `bytes`: bytes sent to one peer per iteration; `step`: bytes of a
	 * message; `steps`: number of messages. */
	uint64_t bytes, step, steps;
	uint64_t room; /* bytes of a slot */
	uint64_t key;
};

/* Return the bytes of the largest message. */
static uint64_t step_of(const struct perf_options *opt)
{
	uint64_t step =
		opt->chunk && opt->chunk < opt->max ? opt->chunk : opt->max;

	return step ? step : 1;
}

size_t perf_steps_memory(const struct perf_options *opt)
{
	return (size_t)(NCCL_STEPS * (unsigned)opt->group *
			perf_batch_stride(step_of(opt)));
}

/* Return the number of messages of the stream's channel in one iteration. */
static uint64_t per_iteration(const struct perf_stream *s)
{
	const struct run *run = s->arg;
	unsigned channels = (unsigned)run->r->w->opt.channels;

	return (run->steps + channels - 1 - (unsigned)s->channel) / channels;
}

/* Return the position in its group of the message that is sent as number `i`.
 * The sends of a group follow each other in cyclic order, from a pseudo-random
 * start and in a pseudo-random direction. */
static unsigned order(struct perf_stream *s, uint64_t i)
{
	unsigned group = (unsigned)s->group;
	uint64_t first = i / group * group;
	uint64_t n = s->total - first < group ? s->total - first : group;
	uint64_t bits = perf_mix(first);
	uint64_t at = (i - first + (bits >> 8) % n) % n;

	return (unsigned)(bits & 1 ? n - 1 - at : at);
}

/* Return the number that both ends use for the message that this end posts as
 * number `i`. */
static uint64_t number_of(struct perf_stream *s, uint64_t i)
{
	unsigned group = (unsigned)s->group;

	return s->sends ? i / group * group + order(s, i) : i;
}

static char *slot(const struct perf_stream *s, uint64_t number)
{
	const struct run *run = s->arg;

	return s->mem + number % (NCCL_STEPS * (unsigned)s->group) * run->room;
}

static size_t size_of(const struct perf_stream *s, uint64_t number)
{
	const struct run *run = s->arg;
	uint64_t k =
		number % per_iteration(s) * (unsigned)run->r->w->opt.channels +
		(unsigned)s->channel;
	uint64_t left = run->bytes - k * run->step;

	return (size_t)(left < run->step ? left : run->step);
}

/* Return the number of messages of the stream before this run. */
static uint64_t before(const struct perf_stream *s)
{
	const struct run *run = s->arg;

	return run->batch->first * per_iteration(s);
}

static void place_send(struct perf_stream *s, uint64_t i, char **addr,
		       size_t *len)
{
	const struct run *run = s->arg;
	uint64_t number = number_of(s, i);
	double begun;

	*addr = slot(s, number);
	*len = size_of(s, number);
	if (!run->r->w->opt.check || !perf_stream_is_new(s, i))
		return;
	begun = perf_now();
	perf_data_fill(*addr, *len, perf_stream_key(s, run->batch),
		       before(s) + number);
	run->res->checking += perf_now() - begun;
}

static void place_recv(struct perf_stream *s, uint64_t i, char **addr,
		       size_t *len)
{
	const struct run *run = s->arg;
	double begun;

	*addr = slot(s, i);
	*len = (size_t)run->room;
	if (!run->r->w->opt.check || !perf_stream_is_new(s, i))
		return;
	begun = perf_now();
	memset(*addr, PERF_POISON, *len);
	run->res->checking += perf_now() - begun;
}

static void received(struct perf_stream *s, uint64_t i, size_t size)
{
	const struct run *run = s->arg;
	const char *at = slot(s, i);
	size_t want = size_of(s, i);
	uint64_t number = before(s) + i, wrong;
	double begun = perf_now();

	if (!run->r->w->opt.check)
		return;
	wrong = perf_data_check(at, want, perf_stream_key(s, run->batch),
				number) +
		perf_data_touched(at + want, (size_t)run->room - want);
	perf_stream_judge(run->r->w, s, number, want, size, wrong, run->res);
	run->res->checking += perf_now() - begun;
}

/* Return the maximum number of requests in flight. The maximum is lower for the
 * sends of groups, because such sends are out of order and two of them must not
 * use the same slot. */
static unsigned depth(const struct perf_options *opt, bool sends)
{
	unsigned group = (unsigned)opt->group;
	unsigned n = (unsigned)opt->inflight;

	n = n < NCCL_STEPS ? n : NCCL_STEPS;
	n = sends ? n * group - (group - 1) : n;
	return n < PERF_INFLIGHT_MAX ? n : PERF_INFLIGHT_MAX;
}

static void set_up(struct run *run, struct perf_rank *r,
		   const struct perf_batch *batch)
{
	const struct perf_options *opt = &r->w->opt;

	run->bytes = batch->size;
	run->step = step_of(opt);
	run->room = perf_batch_stride(run->step);
	run->steps = run->bytes ? (run->bytes + run->step - 1) / run->step : 1;
	for (int i = 0; i < r->nsend + r->nrecv; i++) {
		struct perf_stream *s = &r->stream[i];

		s->arg = run;
		s->place = s->sends ? place_send : place_recv;
		s->order = s->sends ? order : NULL;
		s->ready = NULL;
		s->over = s->sends ? NULL : received;
		s->total = per_iteration(s) * batch->iters;
		s->depth = depth(opt, s->sends);
		s->placed = 0;
	}
}

bool perf_steps_run(struct perf_rank *r, const struct perf_batch *batch,
		    struct perf_result *res)
{
	struct run run = { .r = r, .batch = batch, .res = res };
	struct perf_lap lap;

	set_up(&run, r, batch);
	if (!perf_lap_begin(r, &lap) ||
	    !perf_streams_run(r->w, r->stream, r->nsend + r->nrecv) ||
	    !perf_lap_end(r, &lap, batch->timed, res))
		return false;
	if (batch->timed && r->nsend)
		res->sent += run.bytes * batch->iters;
	return true;
}
