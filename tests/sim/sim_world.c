/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_world.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_task.h"

#define LINES 4096
#define LINE 200

uint64_t sim_now = 1000 * SIM_S;
bool sim_verbose;

static struct sim_heap events;

static char (*trace)[LINE];
static uint64_t traced, trace_hash;

void sim_rng_seed(struct sim_rng *r, uint64_t seed, const char *subject)
{
	r->state = seed * 0x2545f4914f6cdd1dull;
	for (; *subject; subject++)
		r->state = (r->state ^ (uint8_t)*subject) * 0x100000001b3ull;
	sim_rng_next(r);
}

uint64_t sim_draw_wide(struct sim_rng *r, uint64_t least, uint64_t most)
{
	uint64_t span = most - least + 1;
	unsigned bits = 64 - (unsigned)__builtin_clzll(span);
	uint64_t top = 1ull << sim_draw(r, bits);

	return least + sim_draw(r, top * 2 < span ? top * 2 : span);
}

void sim_event_disarm(struct sim_event *e)
{
	sim_heap_drop(&events, e);
}

void sim_event_arm(struct sim_event *e, uint64_t at, sim_event_fn *fn,
		   void *arg)
{
	e->fn = fn;
	e->arg = arg;
	sim_heap_put(&events, e, at);
}

bool sim_events_run(void)
{
	bool ran = false;

	while (sim_heap_next(&events) <= sim_now) {
		struct sim_event *e = events.heap[1];

		sim_event_disarm(e);
		e->fn(e->arg);
		ran = true;
	}
	return ran;
}

uint64_t sim_events_next(void)
{
	return sim_heap_next(&events);
}

void sim_trace(const char *fmt, ...)
{
	uint64_t ns = sim_now - 1000 * SIM_S;
	char *line;
	va_list ap;
	int n;

	if (!trace)
		trace = calloc(LINES, LINE);
	line = trace[traced++ % LINES];
	n = snprintf(line, LINE, "%7llu.%03u %-12s ",
		     (unsigned long long)ns / 1000, (unsigned)(ns % 1000),
		     sim_task_name());
	va_start(ap, fmt);
	vsnprintf(line + n, LINE - (size_t)n, fmt, ap);
	va_end(ap);
	for (const char *p = line; *p; p++)
		trace_hash = (trace_hash ^ (uint8_t)*p) * 0x100000001b3ull;
	if (sim_verbose)
		fprintf(stderr, "%s\n", line);
}

void sim_trace_dump(unsigned lines)
{
	uint64_t first = traced > LINES ? traced - LINES : 0;

	if (sim_verbose)
		return; /* the trace has been printed already */
	if (traced - first > lines)
		first = traced - lines;
	fprintf(stderr,
		"  the last %llu of %llu trace lines, with virtual time in us:\n",
		(unsigned long long)(traced - first),
		(unsigned long long)traced);
	for (; first < traced; first++)
		fprintf(stderr, "%s\n", trace[first % LINES]);
}

uint64_t sim_trace_hash(void)
{
	return trace_hash ^ sim_now;
}

void sim_lacks(const char *what)
{
	fprintf(stderr, "the machine lacks a resource: %s: %s\n", what,
		strerror(errno));
	fflush(NULL);
	__real__exit(SIM_LACKS);
}

void sim_fail(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "FOUND: ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	sim_trace_dump(60);
	fflush(NULL);
	__real__exit(1);
}
