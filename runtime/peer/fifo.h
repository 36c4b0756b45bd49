/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that wait, in the order they came. All that a peer may have waiting in
 * our memory is in one of these: nothing else counts it. Control thread only.
 */
#ifndef MPIB_PEER_FIFO_H
#define MPIB_PEER_FIFO_H

#include <stddef.h>
#include <stdint.h>

#include "base/serial.h"

/* All zero: empty. */
struct mpib_fifo {
	uint8_t *buf;
	size_t at, len, cap; /* from at up to len waits */
};

static inline size_t mpib_fifo_waits(const struct mpib_fifo *f)
{
	return f->len - f->at;
}

/* The oldest byte; valid until something is added. */
static inline const uint8_t *mpib_fifo_head(const struct mpib_fifo *f)
{
	return f->buf + f->at;
}

/* Room for n more, which wait from now on and which the caller fills in. NULL:
 * no memory. */
uint8_t *mpib_fifo_add(struct mpib_fifo *f, size_t n);
/* The oldest n, of those that wait, are through. */
void mpib_fifo_take(struct mpib_fifo *f, size_t n);
/* What waits, at most max bytes. Unpacked into an empty one. */
void mpib_fifo_serial(struct mpib_serial *p, struct mpib_fifo *f, uint32_t max);
/* Empty, with no memory of its own. */
void mpib_fifo_fini(struct mpib_fifo *f);

#endif
