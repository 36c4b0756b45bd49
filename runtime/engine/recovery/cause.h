/* SPDX-License-Identifier: Apache-2.0 */
/* Why a rail of a lane was stopped: used by the fence and by its counters. */
#ifndef MPIB_ENGINE_CAUSE_H
#define MPIB_ENGINE_CAUSE_H

enum mpib_rail_cause {
	MPIB_CAUSE_NONE,
	MPIB_CAUSE_PORT, /* this node's port is down or its device failed */
	MPIB_CAUSE_ERROR, /* an error completion, or a refused post */
	MPIB_CAUSE_STUCK, /* no completion while the other rail moves */
	MPIB_CAUSE_PEER, /* the peer's proxy sent FENCE */
	MPIB_CAUSE_PROBE, /* reconnected, but the probes failed */
	MPIB_CAUSES,
};

/* In words, for messages. Any thread. */
const char *mpib_rail_cause_name(enum mpib_rail_cause cause);

#endif
