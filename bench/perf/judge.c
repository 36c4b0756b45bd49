/* SPDX-License-Identifier: Apache-2.0 */
/* Counting wrong messages and reporting the first ones. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "perf/stream.h"

/* Most lines per run about wrong messages. */
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
