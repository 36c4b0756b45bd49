/* SPDX-License-Identifier: Apache-2.0 */
/* What a new proxy needs to get ready, and all that the old one serves but its
 * clients (clients.h), serialized. Control thread. */
#ifndef MPIB_PROXY_HANDOVER_STATE_H
#define MPIB_PROXY_HANDOVER_STATE_H

#include "base/serial.h"
#include "config/config.h"

struct mpib_proxy;

/* The first message of a hand-over. Getting ready by it changes nothing for the old
 * proxy, which goes on serving. */
struct mpib_base {
	uint32_t abi; /* MPIB_ABI_VERSION */
	uint32_t devices, rails; /* rails of a device */
	struct mpib_config_device device[MPIB_DEVICES_MAX]; /* origin is "" */
	bool standby; /* their SUPs are in reserve */
	char run_dir[96];
	char peer_link[64]; /* listening address as text, for views */
	struct mpib_engine_inherited inherited;
	int control, stats, metrics; /* listening sockets */
	int admin; /* listening socket; -1: none could be made */
	int lock; /* of the run directory */
	int guard; /* the proxies' end of the guard's link, guard.h; or -1 */
	bool activated; /* systemd passed control */
	bool made; /* a proxy made the run directory */
	uint32_t upgrades; /* that succeeded before */
	uint32_t readopted; /* rails that were readopted before */
	uint32_t lost; /* bit per rail whose device failed for good */
};

void mpib_base_serialize(struct mpib_serial *p, struct mpib_base *b);

/* The rest: events, run-time settings, and the clients' lanes, listeners and
 * connections. *began_ns: when the traffic was stopped. The engine is halted in
 * both proxies. */
void mpib_state_serialize(struct mpib_serial *serial, struct mpib_proxy *p,
			  uint64_t *began_ns);

#endif
