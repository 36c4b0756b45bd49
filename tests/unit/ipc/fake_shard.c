/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fake_proxy.h"

void fake_conn_open(struct fake_proxy *f, unsigned index)
{
	struct fake_conn *fl = &f->conn[index];

	*fl = (struct fake_conn){
		.ring = { .slot = f->submit->ring[index],
			  .head = &f->reply->conn[index].head,
			  .next = atomic_load(&f->reply->conn[index].head),
			  .size = MPIB_RING_SLOTS },
	};
}

static void pop_all(struct fake_conn *fl)
{
	struct mpib_desc d;

	while (fl->last - fl->first < FAKE_QUEUE &&
	       mpib_ring_pop(&fl->ring, &d)) {
		if (d.op == MPIB_OP_FLUSH) {
			fl->flush = d;
			fl->flushes++;
			continue;
		}
		if (d.pos == 0 || fl->ended[d.req] != d.gen)
			fl->queue[fl->last++ % FAKE_QUEUE] = d;
	}
	mpib_ring_publish(&fl->ring);
}

static struct mpib_desc *front(struct fake_conn *fl)
{
	return fl->first == fl->last ? NULL
				     : &fl->queue[fl->first % FAKE_QUEUE];
}

static void end(struct fake_proxy *f, unsigned index, struct mpib_desc d,
		int32_t result)
{
	struct fake_conn *fl = &f->conn[index];

	mpib_completion_finish(&f->reply->completion[index][d.req], d.gen,
			       result);
	fl->ended[d.req] = d.gen;
	fl->moved = fl->in_part = fl->group_done = 0;
	/* Drop the other descriptors of this request. */
	while (front(fl) && front(fl)->req == d.req && front(fl)->gen == d.gen)
		fl->first++;
}

static char *memory(struct fake_proxy *f, const struct mpib_desc *d)
{
	char *base;

	pthread_mutex_lock(&f->lock);
	base = f->pool[d->mr].addr;
	pthread_mutex_unlock(&f->lock);
	return base + d->off;
}

static void part_done(struct fake_proxy *f, unsigned index)
{
	struct fake_conn *fl = &f->conn[index];
	struct mpib_desc *d = front(fl);

	if (fl->in_part < d->len || fl->moved == d->total)
		return; /* end() completes the last part */
	mpib_completion_advance(&f->reply->completion[index][d->req], d->gen,
				fl->moved);
	fl->in_part = 0;
	fl->first++;
}

static void too_large(struct fake_proxy *f, unsigned from, unsigned to)
{
	struct mpib_desc s = *front(&f->conn[from]), r = *front(&f->conn[to]);
	struct mpib_completion *cs = &f->reply->completion[from][s.req];
	struct mpib_completion *cr = &f->reply->completion[to][r.req];

	cs->size[0] = cr->size[0] = s.total;
	cs->size[1] = cr->size[1] = r.total;
	end(f, from, s, -EMSGSIZE);
	end(f, to, r, -EMSGSIZE);
}

/* Return the unfilled receive with this tag in the oldest group. */
static struct mpib_desc *member(struct fake_conn *fl, int32_t tag)
{
	struct mpib_desc *d = front(fl);

	for (unsigned i = 0; i < d->n; i++) {
		d = &fl->queue[(fl->first + i) % FAKE_QUEUE];
		if (d->tag == tag && fl->size[d->idx] == UINT32_MAX)
			return d;
	}
	abort();
}

static void end_member(struct fake_proxy *f, unsigned to, struct mpib_desc r,
		       uint32_t size)
{
	struct fake_conn *fl = &f->conn[to];
	struct mpib_completion *c = &f->reply->completion[to][r.req];

	fl->size[r.idx] = size;
	fl->moved = fl->in_part = 0;
	if (++fl->group_done < r.n)
		return;
	for (unsigned i = 0; i < r.n; i++)
		c->size[i] = fl->size[i];
	end(f, to, r, (int32_t)size);
}

/* Move some bytes of the current message, or complete it. Return false if there
 * is nothing to do. */
static bool step(struct fake_proxy *f, unsigned from, unsigned to,
		 uint32_t *budget)
{
	struct fake_conn *a = &f->conn[from], *b = &f->conn[to];
	struct mpib_desc s, r;
	uint32_t len;

	if (!front(a) || !front(b) || b->last - b->first < front(b)->n)
		return false;
	s = *front(a);
	if (front(b)->n > 1 && b->group_done == 0 && b->moved == 0)
		memset(b->size, 0xff, sizeof(b->size));
	r = front(b)->n > 1 ? *member(b, s.tag) : *front(b);
	if (s.total > r.total) {
		too_large(f, from, to);
		return true;
	}
	len = 1 + (uint32_t)rand_r(&f->seed) % 20000;
	len = len < *budget ? len : *budget;
	len = len < s.len - a->in_part ? len : s.len - a->in_part;
	len = len < r.len - b->in_part ? len : r.len - b->in_part;
	if (s.total > 0 && len == 0)
		return false;
	if (len > 0)
		memcpy(memory(f, &r) + b->in_part, memory(f, &s) + a->in_part,
		       len);
	*budget -= len;
	a->moved += len, a->in_part += len;
	b->moved += len, b->in_part += len;
	if (a->moved < s.total) {
		part_done(f, from);
		part_done(f, to);
		return true;
	}
	end(f, from, s, (int32_t)s.total);
	if (r.n > 1)
		end_member(f, to, r, s.total);
	else
		end(f, to, r, (int32_t)s.total);
	return true;
}

void fake_turn(struct fake_proxy *f, unsigned from, unsigned to, uint32_t bytes)
{
	pop_all(&f->conn[from]);
	pop_all(&f->conn[to]);
	while (step(f, from, to, &bytes))
		;
}
