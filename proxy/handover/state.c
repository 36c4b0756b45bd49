/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which a proxy's parts are packed and unpacked. */
#include "handover/state.h"

#include "base/event.h"
#include "engine/handover/handover.h"
#include "handover/clients.h"
#include "handover/settings.h"
#include "peer/handover/handover.h"
#include "proxy.h"

void mpib_clients_serialize(struct mpib_serial *serial, struct mpib_proxy *p)
{
	proxy_clients_serialize(serial, &p->clients);
}

void mpib_state_serialize(struct mpib_serial *serial, struct mpib_proxy *p,
			  uint64_t *began_ns)
{
	mpib_serial_mark(serial, "state");
	mpib_serial_u64(serial, began_ns);
	mpib_events_serial(serial);
	mpib_history_serialize(serial, &p->history);
	mpib_settings_serialize(serial, p);
	mpib_engine_serialize(serial, p->engine);
	mpib_broker_serialize(serial, p->broker, proxy_clients_owner,
			      &p->clients);
}
