/* SPDX-License-Identifier: Apache-2.0 */
/* Keep the tasks that can run, and the times at which waiting tasks wake.
 * Waiting tasks must not slow down a step of the scheduler, because hundreds of
 * strangers can connect at the same time, and each stranger is a task. */
#include <stdlib.h>
#include <string.h>

#include "sim_file.h"
#include "sim_task.h"

#define BUCKETS 256

static struct sim_heap sleepers;
/* Hash table of the waiting tasks. The key is the address of the object for
 * which a task waits. */
static LIST_HEAD(, sim_task) waiting[BUCKETS];
struct sim_ready sim_ready;
static size_t room;

/* Return the index of `t` in the list of ready tasks, which is sorted by age.
 * If `t` is not in the list, return the index at which to insert it. */
static size_t place_of(const struct sim_task *t)
{
	size_t from = 0, to = sim_ready.n;

	while (from < to) {
		size_t mid = (from + to) / 2;

		if (sim_ready.task[mid]->number < t->number)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

void sim_ready_add(struct sim_task *t)
{
	struct sim_ready *r = &sim_ready;
	size_t i;

	if (t->ended || t->runnable)
		return;
	sim_heap_drop(&sleepers, &t->due);
	if (r->n == room) {
		room = room ? 2 * room : 256;
		r->task = realloc(r->task, room * sizeof(*r->task));
		if (!r->task)
			abort();
	}
	i = place_of(t);
	memmove(&r->task[i + 1], &r->task[i], (r->n - i) * sizeof(*r->task));
	r->task[i] = t;
	r->n++;
	t->runnable = true;
}

void sim_ready_drop(struct sim_task *t)
{
	struct sim_ready *r = &sim_ready;
	size_t i;

	sim_heap_drop(&sleepers, &t->due);
	if (!t->runnable)
		return;
	i = place_of(t);
	r->n--;
	memmove(&r->task[i], &r->task[i + 1], (r->n - i) * sizeof(*r->task));
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

static unsigned bucket_of(const void *what)
{
	return (unsigned)((uintptr_t)what >> 4) % BUCKETS;
}

void sim_ready_waits(struct sim_task *t, const void *what)
{
	if (t->waits)
		LIST_REMOVE(t, waiting);
	t->waits = what;
	if (what)
		LIST_INSERT_HEAD(&waiting[bucket_of(what)], t, waiting);
}

unsigned sim_ready_for(const void *what)
{
	struct sim_task *t;
	unsigned n = 0;

	LIST_FOREACH(t, &waiting[bucket_of(what)], waiting)
	{
		if (t->waits != what)
			continue;
		sim_ready_add(t);
		n++;
	}
	return n;
}

void sim_ready_look(void)
{
	while (sim_heap_next(&sleepers) <= sim_now)
		sim_ready_add(sleepers.heap[1]->arg);
}

uint64_t sim_ready_next(void)
{
	uint64_t at = sim_heap_next(&sleepers);

	for (size_t i = 0; i < sim_ready.n; i++) {
		uint64_t stopped = sim_ready.task[i]->proc->stopped_until;

		if (stopped > sim_now && stopped < at)
			at = stopped;
	}
	return at;
}

void sim_wait(uint64_t until)
{
	sim_wait_for(NULL, until);
}

void sim_wait_file(struct sim_file *file, uint64_t until)
{
	file->waiters++;
	sim_wait_for(file, until);
	file->waiters--;
}
