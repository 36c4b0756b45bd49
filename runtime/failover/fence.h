/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of one rail of one lane, seen from one of its ends, without any
 * I/O: what happens comes in by the calls below, what has to be done goes out
 * as a set of actions. The engine runs it, the simulator (tests/fault/sim)
 * runs two of them against each other, and tests/fault/fence.pml is its model.
 *
 *   LIVE --fault, or the peer's FENCE--> STOPPING --drained--> STOPPED
 *   STOPPED --the peer is drained, too--> DOWN, under a new epoch
 *   DOWN --healthy, hold-down over--> OFFERED --the peer's OFFER--> PROBING
 *   PROBING --probed here and there--> LIVE
 *
 * Why nothing is lost, doubled or changed:
 *
 *  - A stripe is written again only in DOWN, that is, after both ends' QPs of
 *    the rail were in ERR and drained. From the moment the receiver's QP is in
 *    ERR no old write can land, so what the receiver says in its answer stays
 *    true, and its buffer is handed back only for what the answer calls seen.
 *  - An end leaves STOPPED only with the peer's FENCED of the same epoch, and
 *    the peer sends nothing of the next epoch before it has ours; the peer
 *    link keeps order. So both ends count epochs alike, and a message of
 *    another epoch than ours comes from no sound peer.
 *  - Both ends may find the fault at once: FENCE then meets FENCE of the same
 *    epoch, and each is content with it.
 *  - A fault while the rail is made again ends that attempt by the same way.
 */
#ifndef MPIB_FAILOVER_FENCE_H
#define MPIB_FAILOVER_FENCE_H

#include <stdbool.h>
#include <stdint.h>

enum mpib_fence_state {
	MPIB_FENCE_LIVE, /* traffic goes over it */
	MPIB_FENCE_STOPPING, /* QPs go to ERR and are drained */
	MPIB_FENCE_STOPPED, /* ours are; the peer's not yet */
	MPIB_FENCE_DOWN, /* both are: the rail carries nothing old */
	MPIB_FENCE_RECONNECTING, /* new QPs made and offered */
	MPIB_FENCE_PROBING, /* connected; does it carry? */
};

struct mpib_fence {
	enum mpib_fence_state state;
	uint32_t epoch; /* of the QPs of now, or of the next ones */
	bool healthy; /* the port of this end */
	bool held; /* hold-down */
	bool probed; /* of this epoch, as the peer's below */
	bool peer_fenced, peer_offered, peer_up;
};

/* To be done in this order. */
enum {
	MPIB_FENCE_STOP = 1u << 0, /* post no more, QPs to ERR, drain, then
				      mpib_fence_drained() */
	MPIB_FENCE_TELL = 1u << 1, /* send FENCE of epoch */
	MPIB_FENCE_ANSWER = 1u << 2, /* send FENCED: what we have */
	MPIB_FENCE_REPLAY = 1u << 3, /* by the peer's answer; the epoch is the
					next one already */
	MPIB_FENCE_HOLD = 1u << 4, /* begin hold-down, then
				      mpib_fence_hold_over() */
	MPIB_FENCE_RECONNECT = 1u << 5, /* make QPs, send OFFER of epoch */
	MPIB_FENCE_CONNECT = 1u << 6, /* to what the peer offered; probe, then
					 mpib_fence_probed() */
	MPIB_FENCE_TELL_UP = 1u << 7, /* send UP of epoch */
	MPIB_FENCE_RESUME = 1u << 8, /* traffic may go over it again */
};

/* LIVE in epoch 0. */
void mpib_fence_init(struct mpib_fence *f, bool healthy);

/* Each returns the actions that follow, 0 for none. */
unsigned mpib_fence_fault(struct mpib_fence *f);
/* The port of this end went down, or came back. */
unsigned mpib_fence_health(struct mpib_fence *f, bool healthy);
unsigned mpib_fence_drained(struct mpib_fence *f);
unsigned mpib_fence_hold_over(struct mpib_fence *f);
unsigned mpib_fence_probed(struct mpib_fence *f, bool ok);

enum mpib_fence_msg {
	MPIB_FENCE_MSG_FENCE = 1,
	MPIB_FENCE_MSG_FENCED,
	MPIB_FENCE_MSG_RECONNECT,
	MPIB_FENCE_MSG_UP,
};

/* False: no sound peer sends this now. */
bool mpib_fence_message(struct mpib_fence *f, enum mpib_fence_msg msg,
			uint32_t epoch, unsigned *actions);

const char *mpib_fence_state_name(enum mpib_fence_state state);

#endif
