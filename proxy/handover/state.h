/* SPDX-License-Identifier: Apache-2.0 */
/* All that a proxy serves, serialized in two parts. Control thread. */
#ifndef MPIB_PROXY_HANDOVER_STATE_H
#define MPIB_PROXY_HANDOVER_STATE_H

#include "base/serial.h"

struct mpib_proxy;

/*
 * The attached clients with their segments and regions. Mapping and registering
 * much memory takes long in the new proxy, so this part is packed while the old
 * proxy's traffic goes on, with attaching and registering paused. Unpacked
 * before the shards run.
 */
void mpib_clients_serialize(struct mpib_serial *serial, struct mpib_proxy *p);
/* The rest: events, run-time settings, and the clients' lanes, listeners and
 * connections. *began_ns: when the traffic was stopped. The engine is halted in
 * both proxies. */
void mpib_state_serialize(struct mpib_serial *serial, struct mpib_proxy *p,
			  uint64_t *began_ns);

#endif
