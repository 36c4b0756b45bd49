/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the files of a broker's handover: each function runs in both
 * directions, as base/serial.h has it. In this order, for what comes later
 * names what came before by its id.
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

/* links.c: peers whose link stands, with their sessions and lanes. */
void mpib_serial_peers(struct mpib_broker_serialize *x);
/* Only such a link can be handed over. */
bool mpib_peer_quiescent(const struct mpib_peer *p);
void mpib_serial_node(struct mpib_serial *p, struct mpib_node_id *n);

/* conns.c */
void mpib_serial_listeners(struct mpib_broker_serialize *x);
void mpib_serial_conns(struct mpib_broker_serialize *x);

#endif
