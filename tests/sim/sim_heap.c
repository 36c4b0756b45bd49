/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "sim_world.h"

static bool heap_before(const struct sim_event *a, const struct sim_event *b)
{
	return a->at != b->at ? a->at < b->at : a->seq < b->seq;
}

static void put(struct sim_heap *h, struct sim_event *e, size_t i)
{
	h->heap[i] = e;
	e->place = i;
}

static void sift_up(struct sim_heap *h, struct sim_event *e, size_t i)
{
	for (; i > 1 && heap_before(e, h->heap[i / 2]); i /= 2)
		put(h, h->heap[i / 2], i);
	put(h, e, i);
}

static void sift_down(struct sim_heap *h, struct sim_event *e, size_t i)
{
	for (;;) {
		size_t c = 2 * i;

		if (c > h->n)
			break;
		if (c < h->n && heap_before(h->heap[c + 1], h->heap[c]))
			c++;
		if (!heap_before(h->heap[c], e))
			break;
		put(h, h->heap[c], i);
		i = c;
	}
	put(h, e, i);
}

void sim_heap_take(struct sim_heap *h, struct sim_event *e)
{
	struct sim_event *last;
	size_t i = e->place;

	e->place = 0;
	last = h->heap[h->n--];
	if (last == e)
		return;
	sift_down(h, last, i);
	sift_up(h, last, last->place);
}

void sim_heap_put(struct sim_heap *h, struct sim_event *e, uint64_t at)
{
	sim_heap_drop(h, e);
	e->at = at > sim_now ? at : sim_now;
	e->seq = h->seq++;
	if (h->n + 1 >= h->room) {
		h->room = h->room ? 2 * h->room : 256;
		h->heap = realloc(h->heap, h->room * sizeof(*h->heap));
		if (!h->heap)
			abort();
	}
	sift_up(h, e, ++h->n);
}
