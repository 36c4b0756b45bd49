/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What waits to be sent to a peer: whole frames go in, and bytes leave as the
 * kernel takes them. It grows up to a limit, so that a peer that does not read
 * cannot fill our memory. Control thread only.
 */
#ifndef MPIB_PEER_OUTBOX_H
#define MPIB_PEER_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "peer/auth.h"
#include "peer/fifo.h"
#include "peer/resume.h"

/* All that a session keeps, so that a link that is made again can be given that
 * at once, and the words that belong to no session beside it. */
#define MPIB_OUTBOX_MAX (MPIB_KEEP_MAX + (64u << 10))

/* All zero: empty. */
struct mpib_outbox {
	struct mpib_fifo bytes;
	const char *overflow; /* why it takes no more, once it does not */
};

static inline bool mpib_outbox_empty(const struct mpib_outbox *o)
{
	return mpib_fifo_waits(&o->bytes) == 0;
}

/* A frame of n bytes as mpib_peer_encode() makes it, sealed where seal is on.
 * False: it does not fit, nor will anything after it. */
bool mpib_outbox_put(struct mpib_outbox *o, struct mpib_seal *seal,
		     const uint8_t *frame, size_t n);
/* What the socket takes at once: bytes, 0 when it is full, or -errno. */
ssize_t mpib_outbox_send(struct mpib_outbox *o, int fd);
void mpib_outbox_serialize(struct mpib_serial *p, struct mpib_outbox *o);
void mpib_outbox_fini(struct mpib_outbox *o);

#endif
