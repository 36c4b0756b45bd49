/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes that wait to be sent on one peer link: whole frames go in, and
 * bytes leave as the kernel takes them. The queue has a limit, so that a peer
 * that does not read cannot fill this proxy's memory. Control thread only.
 */
#ifndef MPIB_PEER_OUTBOX_H
#define MPIB_PEER_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "peer/auth.h"
#include "peer/fifo.h"

/* The most bytes that wait, seals included: room for the closes of all
 * connections that four users have by default, since all users' lanes end with a
 * peer that lets more wait. */
#define MPIB_OUTBOX_MAX (32u << 20)

/* A zeroed outbox is empty. */
struct mpib_outbox {
	struct mpib_fifo bytes;
	const char *overflow; /* why it takes no more; NULL: it does */
};

static inline bool mpib_outbox_empty(const struct mpib_outbox *o)
{
	return mpib_fifo_waits(&o->bytes) == 0;
}

/* Add a frame of n bytes from mpib_peer_encode(), sealed if seal is on. False:
 * it does not fit, and no later frame will either. */
bool mpib_outbox_put(struct mpib_outbox *o, struct mpib_seal *seal,
		     const uint8_t *frame, size_t n);
/* Send as much as the socket takes. Returns bytes, 0 if the socket is full, or
 * -errno. */
ssize_t mpib_outbox_send(struct mpib_outbox *o, int fd);
void mpib_outbox_fini(struct mpib_outbox *o);

#endif
