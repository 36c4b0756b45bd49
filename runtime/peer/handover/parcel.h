/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the files of a broker's handover: each function runs in both
 * directions, as base/parcel.h has it. In this order, for what comes later
 * names what came before by its id.
 */
#ifndef MPIB_PEER_HANDOVER_PARCEL_H
#define MPIB_PEER_HANDOVER_PARCEL_H

#include "peer/handover/handover.h"
#include "peer/internal.h"

struct mpib_broker_parcel {
	struct mpib_parcel *p;
	struct mpib_broker *b;
	mpib_owner_fn *owner;
	void *arg;
};

/* links.c: peers whose link stands, with their sessions and lanes. */
void mpib_parcel_peers(struct mpib_broker_parcel *x);
/* Only such a link can be handed over. */
bool mpib_peer_settled(const struct mpib_peer *p);
void mpib_parcel_node(struct mpib_parcel *p, struct mpib_node_id *n);

/* conns.c */
void mpib_parcel_listeners(struct mpib_broker_parcel *x);
void mpib_parcel_conns(struct mpib_broker_parcel *x);

#endif
