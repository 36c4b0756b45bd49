/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fence: state machine of one rail of one lane at one of its ends, without
 * I/O. The calls below are its events; each returns a set of actions. The
 * engine's control thread runs it (engine/recovery); tests/fault/fence.pml is
 * its model.
 *
 *   LIVE --fault, or the peer's FENCE--> STOPPING --flushed--> STOPPED
 *   STOPPED --the peer has stopped, too--> REPLAYING, under a new epoch
 *   REPLAYING --lost stripes found, old QPs released--> DOWN
 *   DOWN --hold-down over while healthy--> RECONNECTING
 *   RECONNECTING --the peer's RECONNECT--> PROBING
 *   PROBING --probed at both ends--> LIVE
 *
 * Why no byte is lost, written twice or changed:
 *
 *  - A stripe is replayed only from REPLAYING on, that is, after both ends' QPs
 *    of the rail were in ERR and flushed. From the moment the receiver's QP is
 *    in ERR no old write can land, so the receive bitmap in the receiver's
 *    FENCED stays true, and the receiver gives a buffer back to its client only
 *    when the bitmap reports all of the buffer's stripes as seen.
 *  - An end leaves STOPPED only with the peer's FENCED of the same epoch, and
 *    the peer sends no message of the next epoch before it has this end's
 *    FENCED; the peer link keeps order. So both ends count epochs alike.
 *  - When the peer link has broken, each end sends again the messages that its
 *    state implies (engine/recovery/failover.c). The other end ignores those
 *    that it has: of its own epoch, or of the two before. An end in epoch n
 *    repeats its FENCED of n - 1 until it hears of epoch n, and by its FENCED
 *    of n the other may be in n + 1. A sound peer sends no message of any
 *    other epoch.
 *  - Both ends may find the fault at the same time: then each gets the other's
 *    FENCE of the same epoch after it has sent its own, and ignores it.
 *  - A fault while the rail is reconnecting or probing stops the rail again in
 *    the same way.
 */
#ifndef MPIB_FAILOVER_FENCE_H
#define MPIB_FAILOVER_FENCE_H

#include <stdbool.h>
#include <stdint.h>

enum mpib_fence_state {
	MPIB_FENCE_LIVE, /* the rail carries traffic */
	MPIB_FENCE_STOPPING, /* this end's QPs go to ERR and are flushed */
	MPIB_FENCE_STOPPED, /* this end has stopped, the peer not yet */
	/* Both ends have stopped: no old write can arrive. */
	MPIB_FENCE_REPLAYING,
	MPIB_FENCE_DOWN, /* hold-down, or until the port is up */
	/* New QPs are created and announced to the peer. */
	MPIB_FENCE_RECONNECTING,
	MPIB_FENCE_PROBING, /* QPs are connected; do they work? */
};

struct mpib_fence {
	enum mpib_fence_state state;
	uint32_t epoch; /* of the QPs; from REPLAYING on that of the next QPs */
	bool healthy; /* this end's port is up */
	/* In this epoch: this end's probes were answered; the peer has sent
	 * FENCED, RECONNECT, UP. */
	bool probed;
	bool peer_fenced, peer_reconnects, peer_up;
};

/* Actions for the caller, in this order. */
enum {
	MPIB_FENCE_STOP = 1u << 0, /* post no more, QPs to ERR; all flushed:
				      mpib_fence_stopped() */
	MPIB_FENCE_TELL = 1u << 1, /* send FENCE of epoch */
	MPIB_FENCE_ANSWER = 1u << 2, /* send FENCED with the receive bitmaps */
	/* By the peer's receive bitmaps; epoch is already the next one. Then
	 * mpib_fence_replayed(). */
	MPIB_FENCE_REPLAY = 1u << 3,
	/* Begin hold-down, or begin it again; then mpib_fence_hold_over(). */
	MPIB_FENCE_HOLD = 1u << 4,
	MPIB_FENCE_RECONNECT = 1u << 5, /* make QPs, send RECONNECT of epoch */
	MPIB_FENCE_CONNECT = 1u << 6, /* connect to the QPs in the peer's
					 RECONNECT; probe them, then
					 mpib_fence_probed() */
	MPIB_FENCE_TELL_UP = 1u << 7, /* send UP of epoch */
	MPIB_FENCE_RESUME = 1u << 8, /* the rail may carry traffic again */
};

/* Start LIVE in epoch 0, as if RESUME had just been returned. */
void mpib_fence_init(struct mpib_fence *f, bool healthy);

/* Events at this end. Each returns the actions that follow, 0 for none. */
unsigned mpib_fence_fault(struct mpib_fence *f);
/* This end's port went down, or came back. */
unsigned mpib_fence_health(struct mpib_fence *f, bool healthy);
unsigned mpib_fence_stopped(struct mpib_fence *f);
unsigned mpib_fence_replayed(struct mpib_fence *f);
unsigned mpib_fence_hold_over(struct mpib_fence *f);
unsigned mpib_fence_probed(struct mpib_fence *f, bool ok);

enum mpib_fence_msg {
	MPIB_FENCE_MSG_FENCE = 1,
	MPIB_FENCE_MSG_FENCED,
	MPIB_FENCE_MSG_RECONNECT,
	MPIB_FENCE_MSG_UP,
};

/* Return whether both ends have completed the fence of this epoch. Its messages
 * are then repetitions and change nothing. */
static inline bool mpib_fence_past(const struct mpib_fence *f, uint32_t epoch)
{
	return f->epoch - epoch - 1 < 2;
}

/* Handle a message of the peer. A message that this end has already changes
 * nothing. False: a correct peer does not send it in this state. */
bool mpib_fence_message(struct mpib_fence *f, enum mpib_fence_msg msg,
			uint32_t epoch, unsigned *actions);

#endif
