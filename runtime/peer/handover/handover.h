/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a broker hands what it has to that of another process: links with their
 * sockets, lanes, listeners and connections. Other nodes see the same link go
 * on, by which they are told, connection by connection, where our tables are
 * now. engine/handover/handover.h is the rails' part in it. Control thread.
 */
#ifndef MPIB_PEER_HANDOVER_H
#define MPIB_PEER_HANDOVER_H

#include "base/serial.h"
#include "peer/broker.h"

/* Connects under way are held, and what they have on its way is taken back; or
 * go on. */
void mpib_broker_hold(struct mpib_broker *b, bool on);

/*
 * Whether it can be handed over now. 0; -EAGAIN: something is still on its way
 * and why names it; -EBUSY: it is not of a kind that can be, and why says what
 * helps. Lanes that nobody uses and that cannot be handed over are closed.
 */
int mpib_broker_quiescent(struct mpib_broker *b, char *why, size_t why_len);

/* The client whose client has the id, or NULL. */
typedef struct peer_client *peer_client_fn(void *arg, uint32_t client);

/* Packed, all of it is still ours. Unpacked into a broker that was opened idle;
 * p fails in words when that cannot be. */
void mpib_broker_serialize(struct mpib_serial *p, struct mpib_broker *b,
			   peer_client_fn *by_id, void *arg);

/* It is the other one's now: listen, take callers, and tell all peers where
 * our ends are. -errno. */
int mpib_broker_go_on(struct mpib_broker *b);

#endif
