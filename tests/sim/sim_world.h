/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated world: virtual time, planned events, random numbers, and the
 * trace. Everything runs on one kernel thread, so this code needs no locks.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_US 1000ull
#define SIM_MS 1000000ull
#define SIM_S 1000000000ull
#define SIM_NEVER UINT64_MAX

/* A random stream. Each subject, such as the network, has its own stream, so an
 * additional draw for one subject does not change the draws for others. */
struct sim_rng {
	uint64_t state;
};

void sim_rng_seed(struct sim_rng *r, uint64_t seed, const char *subject);

/* Return the next number. This function is inline, because every step of the
 * scheduler draws a number. */
static inline uint64_t sim_rng_next(struct sim_rng *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* Return a random number below `n`, or 0 if `n` is 0. */
static inline uint64_t sim_draw(struct sim_rng *r, uint64_t n)
{
	return n ? sim_rng_next(r) % n : 0;
}

static inline bool sim_chance(struct sim_rng *r, unsigned of)
{
	return sim_draw(r, of) == 0;
}

/* Return a random number from `least` to `most`, both included. First a random
 * magnitude is drawn, so small numbers are as likely as large numbers. */
uint64_t sim_draw_wide(struct sim_rng *r, uint64_t least, uint64_t most);

/* A planned event. The struct is a member of the object to which the event
 * belongs. */
typedef void sim_event_fn(void *arg);
struct sim_event {
	uint64_t at, seq;
	sim_event_fn *fn;
	void *arg;
	/* index in the heap, from 1; 0 means that the event is not armed */
	size_t place;
};

/* A heap of events, ordered by time. See sim_heap.c. */
struct sim_heap {
	struct sim_event **heap; /* heap[1] is the next event */
	size_t n, room;
	uint64_t seq;
};

/* Add the event, or move it if it is in the heap. */
void sim_heap_put(struct sim_heap *h, struct sim_event *e, uint64_t at);
void sim_heap_take(struct sim_heap *h, struct sim_event *e);
static inline void sim_heap_drop(struct sim_heap *h, struct sim_event *e)
{
	if (e->place)
		sim_heap_take(h, e);
}
/* Return the time of the first event, or SIM_NEVER if the heap is empty. */
static inline uint64_t sim_heap_next(const struct sim_heap *h)
{
	return h->n ? h->heap[1]->at : SIM_NEVER;
}

extern uint64_t sim_now; /* virtual time in ns since an arbitrary start */

/* Arm the event, or move it if it is armed. */
void sim_event_arm(struct sim_event *e, uint64_t at, sim_event_fn *fn,
		   void *arg);
void sim_event_disarm(struct sim_event *e);
/* Run the events whose time has come. Return false if no event was due. */
bool sim_events_run(void);
uint64_t sim_events_next(void); /* returns SIM_NEVER if no event is armed */

/* Add a line to the trace. sim_trace_dump() prints only the last lines.
 * sim_trace_hash() covers all lines, so that two runs can be compared. */
void sim_trace(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void sim_trace_dump(unsigned lines);
uint64_t sim_trace_hash(void);
extern bool sim_verbose; /* print lines at once */

/* Report that the real machine lacks a resource that the run needs. Print
 * errno, and end this process with status SIM_LACKS, which is not a finding. */
#define SIM_LACKS 3
void sim_lacks(const char *what) __attribute__((noreturn));

/* Report that the run found an error. Print the error and the trace, and end
 * this process. */
void sim_fail(const char *fmt, ...)
	__attribute__((format(printf, 1, 2), noreturn));

#endif
