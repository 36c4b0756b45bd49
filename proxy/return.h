/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watch for the return of failed devices. The verbs context of a failed device
 * and all its objects are lost permanently, and only the next proxy can open
 * the device again. The same holds for a device whose port was down when the
 * proxy started. Once the device can be opened and its port was active
 * throughout the hold-down, the proxy starts a successor, as mpibctl upgrade
 * does. Control thread.
 */
#ifndef MPIB_PROXY_RETURN_H
#define MPIB_PROXY_RETURN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"

struct mpib_proxy;

struct mpib_return {
	struct mpib_proxy *proxy;
	struct mpib_timer timer;
	struct mpib_io watch;
	int look; /* pipe for the probe thread's answer; -1: no probe runs */
	bool any; /* no rail is left: start the successor without delay */
	uint64_t since; /* when the proxy began to serve */
	uint64_t there_since; /* when the devices returned; 0: they have not */
	uint32_t told; /* lost rails for which a successor was started */
};

/* Start watching. Call it once the engine is open. */
void mpib_return_start(struct mpib_return *r, struct mpib_proxy *p);

#endif
