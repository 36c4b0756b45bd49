/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that the files of a broker's hand-over share. Each runs in both
 * directions (base/serial.h). They are called in the order declared here, since
 * later objects name earlier ones by id. Control thread.
 */
#ifndef MPIB_PEER_HANDOVER_SERIALIZE_H
#define MPIB_PEER_HANDOVER_SERIALIZE_H

#include "peer/handover/handover.h"
#include "peer/internal.h"

struct mpib_broker_serialize {
	struct mpib_serial *p;
	struct mpib_broker *b;
	peer_client_fn *client;
	void *arg;
};

/* links.c: peers whose link is up, with their lanes. */
void mpib_serial_peers(struct mpib_broker_serialize *x);
/* Whether the peer's lanes can be handed over: its link is up. */
bool mpib_peer_quiescent(const struct mpib_peer *p);
void mpib_serial_node(struct mpib_serial *p, struct mpib_node_id *n);

/* conns.c */
void mpib_serial_listeners(struct mpib_broker_serialize *x);
void mpib_serial_conns(struct mpib_broker_serialize *x);

#endif
