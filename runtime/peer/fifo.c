/* SPDX-License-Identifier: Apache-2.0 */
#include "peer/fifo.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A queue has this part of what is free, as in a switch's shared buffer. With a
 * larger one, few queues that are filled one after the other leave nothing; with
 * a smaller one, few have less than they could. */
#define SHARE 8

void mpib_fifo_count(struct mpib_fifo *f, struct mpib_fifo_sum *sum)
{
	f->sum = sum;
	sum->waits += mpib_fifo_waits(f);
}

/* The most that a queue may have now. */
static size_t fifo_share(const struct mpib_fifo_sum *sum)
{
	return sum->waits < sum->most ? (sum->most - sum->waits) / SHARE : 0;
}

bool mpib_fifo_room(const struct mpib_fifo *f, size_t n, size_t little,
		    size_t max)
{
	size_t then = mpib_fifo_waits(f) + n;

	return then <= max &&
	       (!f->sum || then <= little || then <= fifo_share(f->sum));
}

/* So much less waits in it. */
static void fifo_less(const struct mpib_fifo *f, size_t n)
{
	if (!f->sum)
		return;
	assert(n <= f->sum->waits);
	f->sum->waits -= n;
}

static void fifo_to_front(struct mpib_fifo *f)
{
	size_t waits = mpib_fifo_waits(f);

	memmove(f->buf, f->buf + f->at, waits);
	f->at = 0;
	f->len = waits;
}

/* Give memory back, with room for as much again as waits. */
static void fifo_shrink(struct mpib_fifo *f)
{
	size_t cap = 2 * mpib_fifo_waits(f);
	uint8_t *less;

	fifo_to_front(f);
	less = realloc(f->buf, cap);
	if (!less)
		return;
	f->buf = less;
	f->cap = cap;
}

uint8_t *mpib_fifo_add(struct mpib_fifo *f, size_t n)
{
	size_t waits = mpib_fifo_waits(f);
	uint8_t *grown;

	if (f->len + n > f->cap && f->at > 0)
		fifo_to_front(f);
	if (f->len + n > f->cap) {
		grown = realloc(f->buf, 2 * (waits + n));
		if (!grown)
			return NULL;
		f->buf = grown;
		f->cap = 2 * (waits + n);
	}
	f->len += n;
	if (f->sum)
		f->sum->waits += n;
	return f->buf + f->len - n;
}

void mpib_fifo_take(struct mpib_fifo *f, size_t n)
{
	assert(n <= mpib_fifo_waits(f));
	fifo_less(f, n);
	f->at += n;
	if (f->at == f->len)
		f->at = f->len = 0;
	if (f->cap <= MPIB_FIFO_SMALL)
		return;
	if (f->len == 0)
		mpib_fifo_fini(f);
	else if (mpib_fifo_waits(f) < f->cap / 4)
		fifo_shrink(f);
}

void mpib_fifo_fini(struct mpib_fifo *f)
{
	fifo_less(f, mpib_fifo_waits(f));
	free(f->buf);
	*f = (struct mpib_fifo){ .sum = f->sum };
}
