/* SPDX-License-Identifier: Apache-2.0 */
/* All that a proxy has for others, as two serialized state. */
#ifndef MPIB_PROXY_HANDOVER_STATE_H
#define MPIB_PROXY_HANDOVER_STATE_H

#include "base/serial.h"

struct mpib_proxy;

/*
 * The attached clients with their segments and regions, which takes long where
 * there is much memory: packed while the traffic goes on, but nobody attaches or
 * registers. Unpacked before shards run.
 */
void mpib_clients_serialize(struct mpib_serial *serial, struct mpib_proxy *p);
/* The rest: lanes, listeners and connections of these clients, and what was set
 * while it ran. began_ns: when the traffic was stopped. Its engine is halted. */
void mpib_state_serialize(struct mpib_serial *serial, struct mpib_proxy *p,
			  uint64_t *began_ns);

#endif
