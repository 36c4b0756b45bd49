/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that failed is taken back when it is there again. Its context, and
 * all that hangs on it, is of no use any more; what opens devices anew, registers
 * all memory on them and tells peers the new keys is a handover. So, once the
 * device could be opened, with its port active, for the length of the hold-down,
 * the proxy hands over to another process of the program that runs. Control
 * thread.
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
	int look; /* where the outcome of a look comes; -1: none is under way */
	uint64_t there_since; /* 0: it is not */
	uint64_t not_before; /* of the next try */
	bool trying; /* the upgrade under way, or the last one, is ours */
	unsigned left; /* rails that the operator was told to take back */
	uint32_t count; /* rails that were taken back, in all processes */
};

/* Once the engine is open; lost: rails that the proxy before had lost. */
void mpib_readopt_start(struct mpib_readopt *r, struct mpib_proxy *p,
			unsigned lost);
/* Nothing when it did not start. */
void mpib_readopt_stop(struct mpib_readopt *r);

#endif
