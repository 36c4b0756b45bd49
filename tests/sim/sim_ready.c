/* SPDX-License-Identifier: Apache-2.0 */
/* The tasks that can run, and when the others can: a step of the scheduler costs
 * nothing for those that wait, of which a crowd of strangers has a thousand. */
#include <stdlib.h>
#include <string.h>

#include "sim_task.h"

static struct sim_heap sleepers;
/* In the order in which they were made. */
static struct sim_task **ready;
static size_t n_ready, room;

struct sim_task *sim_ready(size_t i)
{
	return i < n_ready ? ready[i] : NULL;
}

/* The first that was not made before t. */
static size_t place_of(const struct sim_task *t)
{
	size_t from = 0, to = n_ready;

	while (from < to) {
		size_t mid = (from + to) / 2;

		if (ready[mid]->number < t->number)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

void sim_ready_add(struct sim_task *t)
{
	size_t i = place_of(t);

	if (t->ended || t->runnable)
		return;
	sim_heap_drop(&sleepers, &t->due);
	if (n_ready == room) {
		room = room ? 2 * room : 256;
		ready = realloc(ready, room * sizeof(*ready));
		if (!ready)
			abort();
	}
	memmove(&ready[i + 1], &ready[i], (n_ready - i) * sizeof(*ready));
	ready[i] = t;
	n_ready++;
	t->runnable = true;
}

void sim_ready_drop(struct sim_task *t)
{
	size_t i = place_of(t);

	sim_heap_drop(&sleepers, &t->due);
	if (!t->runnable)
		return;
	n_ready--;
	memmove(&ready[i], &ready[i + 1], (n_ready - i) * sizeof(*ready));
	t->runnable = false;
}

void sim_ready_at(struct sim_task *t, uint64_t at)
{
	uint64_t stopped = t->proc->stopped_until;

	sim_ready_drop(t);
	t->until = at;
	t->due.arg = t;
	if (at != SIM_NEVER)
		sim_heap_put(&sleepers, &t->due, at > stopped ? at : stopped);
}

void sim_ready_look(void)
{
	while (sim_heap_next(&sleepers) <= sim_now)
		sim_ready_add(sleepers.heap[1]->arg);
}

uint64_t sim_ready_next(void)
{
	uint64_t at = sim_heap_next(&sleepers);

	for (size_t i = 0; i < n_ready; i++) {
		uint64_t stopped = ready[i]->proc->stopped_until;

		if (stopped > sim_now && stopped < at)
			at = stopped;
	}
	return at;
}
