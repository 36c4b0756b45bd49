/* SPDX-License-Identifier: Apache-2.0 */
/* Faults that an operator injects. A rail of the software HCA can simulate all
 * of them. On a real HCA only MPIB_FAULT_QP_KILL is possible; failover repairs
 * it. Control thread. */
#ifndef MPIB_ENGINE_REHEARSE_H
#define MPIB_ENGINE_REHEARSE_H

#include "engine/engine.h"

enum mpib_fault_kind {
	MPIB_FAULT_NONE,
	MPIB_FAULT_RATE, /* sends at most `value` bytes per second */
	MPIB_FAULT_DELAY, /* delays each message by `value` ns */
	MPIB_FAULT_BLACK_HOLE, /* the link is up, but no packet passes */
	MPIB_FAULT_LINK_DOWN,
	/* the QPs go to ERR once; to repeat this, start the fault again */
	MPIB_FAULT_QP_KILL,
	MPIB_FAULT_GONE, /* the device is lost, and cannot be opened */
};

struct mpib_fault {
	enum mpib_fault_kind kind;
	unsigned rail; /* number among the rails of all devices */
	/* The fault affects only lanes to this peer. The name may include the
	 * port. "": all lanes of the rail. RATE, LINK_DOWN and GONE affect a
	 * port, so they need "". */
	char peer[64]; /* same size as mpib_lane.peer */
	uint64_t value;
};

/* Start the fault. A rail has at most one fault. On success, the field `peer`
 * holds the full name. -EOPNOTSUPP: the rail is not one of the software HCA.
 * -ENOENT: the rail has no lane to that peer. */
int mpib_engine_play(struct mpib_engine *engine, struct mpib_fault *fault);
/* End the fault. Objects that the fault broke recover as after any failure. A
 * lost device can be used again only by a new process. */
void mpib_engine_end_play(struct mpib_engine *engine,
			  const struct mpib_fault *fault);

#endif
