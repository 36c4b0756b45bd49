/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults that an operator plays on purpose. A rail of the software HCA can play
 * all of them; on a real one only QPs can be killed, which fail-over mends.
 * Control thread.
 */
#ifndef MPIB_ENGINE_REHEARSE_H
#define MPIB_ENGINE_REHEARSE_H

#include "engine/engine.h"

enum mpib_fault_kind {
	MPIB_FAULT_NONE,
	MPIB_FAULT_RATE, /* sends at most value bytes a second */
	MPIB_FAULT_DELAY, /* each message leaves value ns late */
	MPIB_FAULT_BLACK_HOLE, /* link up, nothing passes */
	MPIB_FAULT_LINK_DOWN,
	MPIB_FAULT_QP_KILL, /* the QPs go to ERR once; the caller repeats it */
	MPIB_FAULT_GONE, /* the device is lost, and cannot be opened */
};

struct mpib_fault {
	enum mpib_fault_kind kind;
	unsigned rail; /* its number among the rails of all devices */
	/* Only lanes to that peer, by its name with or without the port; "": the
	 * whole rail. Not for RATE, LINK_DOWN and GONE, which are a port's. */
	char peer[64]; /* as long as a lane's */
	uint64_t value;
};

/*
 * Begin to play fault. It is the only one on its rail. 0, and a peer is named in
 * full; -EOPNOTSUPP: the rail is no software HCA; -ENOENT: no lane leads to that
 * peer over the rail.
 */
int mpib_engine_play(struct mpib_engine *engine, struct mpib_fault *fault);
/* Undo it. What it broke meanwhile comes back as after any failure; a device
 * that was lost needs a new process. */
void mpib_engine_end_play(struct mpib_engine *engine,
			  const struct mpib_fault *fault);

#endif
