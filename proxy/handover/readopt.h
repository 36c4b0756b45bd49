/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readopting a device that failed and is there again. The verbs context of a
 * failed device and all its objects are lost for good; a hand-over is what
 * opens devices anew, registers all memory on them and tells peers the new
 * keys. So, once the device could be opened and its port was active throughout
 * the hold-down, the proxy hands over to a new process of the same program.
 * Control thread.
 */
#ifndef MPIB_PROXY_HANDOVER_READOPT_H
#define MPIB_PROXY_HANDOVER_READOPT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"

struct mpib_proxy;

struct mpib_readopt {
	struct mpib_proxy *proxy;
	struct mpib_timer timer;
	struct mpib_io watch;
	int look; /* pipe for the probe thread's answer; -1: no probe runs */
	uint64_t there_since; /* when the device came back; 0: it has not */
	uint64_t not_before; /* time of the next try */
	bool trying; /* readopt started the present, or latest, upgrade */
	unsigned left; /* rails for which leave_it() told the operator */
	uint32_t count; /* rails readopted, in this process and before */
};

/* Call once the engine is open. lost: rails whose devices the old proxy had
 * lost and this process has opened anew. */
void mpib_readopt_start(struct mpib_readopt *r, struct mpib_proxy *p,
			uint32_t lost);
/* Does nothing when mpib_readopt_start() was not called. */
void mpib_readopt_stop(struct mpib_readopt *r);

#endif
