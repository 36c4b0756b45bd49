/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a broker is handed over to the broker of another process: links with
 * their sockets, sessions, lanes, listeners and connections. Peers see the same
 * link go on; over it they are told, connection by connection, where this
 * node's tables are now. engine/handover/handover.h does the engine's part.
 * Control thread.
 */
#ifndef MPIB_PEER_HANDOVER_H
#define MPIB_PEER_HANDOVER_H

#include "base/serial.h"
#include "peer/broker.h"

/* on: hold the connects under way, and take back their CONN_OPENs. Off: begin
 * the held ones again. */
void mpib_broker_hold(struct mpib_broker *b, bool on);

/*
 * Whether the broker can be handed over now. 0: yes; -EAGAIN: not yet, why
 * names what is still under way; -EBUSY: not at all, why says what helps. Kills
 * lanes that no connection uses and that cannot be handed over.
 */
int mpib_broker_quiescent(struct mpib_broker *b, char *why, size_t why_len);
/* It takes too long until that is so: kill the lanes that do not come up, and
 * those of connections that do not come to their end. */
void mpib_broker_press(struct mpib_broker *b);

/* The client of that engine client id, or NULL. */
typedef struct peer_client *peer_client_fn(void *arg, uint32_t client);

/* Serialize the broker. Packing leaves it in use here. Unpacking goes into a
 * broker that was opened idle; p fails with a text if it cannot be done. */
void mpib_broker_serialize(struct mpib_serial *p, struct mpib_broker *b,
			   peer_client_fn *by_id, void *arg);

/* In the process that took over: listen, take callers, tell all peers where
 * this node's tables are now, and begin the held connects again. 0 or
 * -errno. */
int mpib_broker_go_on(struct mpib_broker *b);

#endif
