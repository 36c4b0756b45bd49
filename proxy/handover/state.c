/* SPDX-License-Identifier: Apache-2.0 */
#include "handover/state.h"

#include "base/event.h"
#include "engine/handover/handover.h"
#include "handover/sessions.h"
#include "handover/settings.h"
#include "peer/handover/handover.h"
#include "proxy.h"

void mpib_clients_parcel(struct mpib_parcel *parcel, struct mpib_proxy *p)
{
	mpib_sessions_parcel(parcel, &p->sessions);
}

void mpib_state_parcel(struct mpib_parcel *parcel, struct mpib_proxy *p,
		       uint64_t *began_ns)
{
	mpib_parcel_mark(parcel, "state");
	mpib_parcel_u64(parcel, began_ns);
	mpib_events_parcel(parcel);
	mpib_settings_parcel(parcel, p);
	mpib_engine_parcel(parcel, p->engine);
	mpib_broker_parcel(parcel, p->broker, mpib_sessions_owner,
			   &p->sessions);
}
