/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which a proxy's parts are packed and unpacked. */
#include "handover/state.h"

#include "base/event.h"
#include "engine/handover/handover.h"
#include "handover/clients.h"
#include "handover/settings.h"
#include "peer/handover/handover.h"
#include "proxy.h"

MPIB_SERIAL_SIZE(struct mpib_base, 5348);
void mpib_base_serialize(struct mpib_serial *p, struct mpib_base *b)
{
	mpib_serial_mark(p, "base");
	mpib_serial_u32(p, &b->abi);
	mpib_serial_count(p, &b->devices, MPIB_DEVICES_MAX);
	mpib_serial_u32(p, &b->rails);
	for (unsigned i = 0; i < b->devices; i++) {
		struct mpib_config_device *d = &b->device[i];

		mpib_serial_text(p, d->name, sizeof(d->name));
		mpib_serial_text(p, d->sout, sizeof(d->sout));
		mpib_serial_text(p, d->sup, sizeof(d->sup));
	}
	mpib_serial_bool(p, &b->standby);
	mpib_serial_text(p, b->run_dir, sizeof(b->run_dir));
	mpib_serial_text(p, b->peer_link, sizeof(b->peer_link));
	mpib_serial_fd(p, &b->inherited.status);
	mpib_serial_count(p, &b->inherited.shards, MPIB_SHARDS_MAX);
	mpib_serial_fd(p, &b->control);
	mpib_serial_fd(p, &b->stats);
	mpib_serial_fd(p, &b->metrics);
	mpib_serial_fd(p, &b->admin);
	mpib_serial_fd(p, &b->lock);
	mpib_serial_fd(p, &b->guard);
	mpib_serial_bool(p, &b->activated);
	mpib_serial_bool(p, &b->made);
	mpib_serial_u32(p, &b->upgrades);
	mpib_serial_u32(p, &b->readopted);
	mpib_serial_u32(p, &b->lost);
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
