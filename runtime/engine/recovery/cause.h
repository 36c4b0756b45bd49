/* SPDX-License-Identifier: Apache-2.0 */
/* Why a rail of a lane was stopped: for who stops it and who counts that. */
#ifndef MPIB_ENGINE_CAUSE_H
#define MPIB_ENGINE_CAUSE_H

enum mpib_rail_cause {
	MPIB_CAUSE_NONE,
	MPIB_CAUSE_PORT, /* PORT_ERR here */
	MPIB_CAUSE_ERROR, /* an error completion, a refused post */
	MPIB_CAUSE_STUCK, /* no completion while the other rail moves */
	MPIB_CAUSE_PEER, /* the other end says so */
	MPIB_CAUSE_PROBE, /* it came back and does not carry */
	MPIB_CAUSE_UPGRADE, /* the other, or this, proxy is replaced */
	MPIB_CAUSES,
};

/* In words, for messages. Any thread. */
const char *mpib_rail_cause_name(enum mpib_rail_cause cause);

#endif
