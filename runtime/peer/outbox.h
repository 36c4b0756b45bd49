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

#include "base/parcel.h"
#include "peer/auth.h"

/* All zero: empty. */
struct mpib_outbox {
	uint8_t *buf;
	size_t len, at, cap; /* from at up to len waits */
	const char *overflow; /* why it takes no more, once it does not */
};

static inline bool mpib_outbox_empty(const struct mpib_outbox *o)
{
	return o->at == o->len;
}

/* A frame of n bytes as mpib_peer_encode() makes it, sealed where seal is on.
 * False: it does not fit, nor will anything after it. */
bool mpib_outbox_put(struct mpib_outbox *o, struct mpib_seal *seal,
		     const uint8_t *frame, size_t n);
/* What the socket takes at once: bytes, 0 when it is full, or -errno. */
ssize_t mpib_outbox_send(struct mpib_outbox *o, int fd);
void mpib_outbox_parcel(struct mpib_parcel *p, struct mpib_outbox *o);
void mpib_outbox_fini(struct mpib_outbox *o);

#endif
