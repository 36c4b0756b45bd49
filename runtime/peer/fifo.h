/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue of bytes, in the order they came. All data that a peer can make wait
 * in this proxy's memory is in such a queue, and nothing else counts it but the sum
 * of several queues. Control thread only.
 */
#ifndef MPIB_PEER_FIFO_H
#define MPIB_PEER_FIFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What waits in all queues that are counted in it, and how much may. */
struct mpib_fifo_sum {
	size_t waits, most;
};

/* A zeroed queue is empty. Its memory is four times what waits at most, beyond
 * MPIB_FIFO_SMALL: what waits can be counted for it. */
struct mpib_fifo {
	uint8_t *buf;
	size_t at, len, cap; /* bytes at..len-1 wait */
	struct mpib_fifo_sum *sum; /* NULL: it is counted in none */
};

/* So much is little: what fills a sum are others. */
#define MPIB_FIFO_SMALL (64u << 10)

static inline size_t mpib_fifo_waits(const struct mpib_fifo *f)
{
	return f->len - f->at;
}

/* The oldest byte; valid until bytes are added or taken. */
static inline const uint8_t *mpib_fifo_head(const struct mpib_fifo *f)
{
	return f->buf + f->at;
}

/* Count the queue in sum, until it is freed with its owner. */
void mpib_fifo_count(struct mpib_fifo *f, struct mpib_fifo_sum *sum);
/* Whether n bytes more fit into a queue that may have max, where its sum allows
 * it, and little in any case. The sum allows a queue a part of what is free, so
 * that those who fill it have no more while there is room for who comes next. */
bool mpib_fifo_room(const struct mpib_fifo *f, size_t n, size_t little,
		    size_t max);
/* Append n bytes, which the caller fills in, and return where. NULL: no
 * memory. */
uint8_t *mpib_fifo_add(struct mpib_fifo *f, size_t n);
/* Remove the oldest n of the bytes that wait. */
void mpib_fifo_take(struct mpib_fifo *f, size_t n);
/* Free the queue's memory; the queue is empty then, and still counted. */
void mpib_fifo_fini(struct mpib_fifo *f);

#endif
