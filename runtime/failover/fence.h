/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fence: the state machine of one end of one rail of a lane, without I/O.
 * The functions below are its events. Each function returns a set of actions
 * for the caller. The engine's control thread runs this state machine
 * (engine/recovery). Its model is tests/fault/fence.pml.
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
 *  - A stripe is replayed only in REPLAYING or later, after the QPs of the rail
 *    were in ERR and flushed at both ends. Once the receiver's QP is in ERR, no
 *    old write can arrive, so the receive bitmap in the receiver's FENCED stays
 *    valid. The receiver completes a buffer only when the bitmap reports all
 *    stripes of the buffer as seen.
 *
 *  - An end leaves STOPPED only after the peer's FENCED of the same epoch. The
 *    peer sends no message of the next epoch before it has received this end's
 *    FENCED, and the peer link keeps the order. So both ends have the same
 *    epoch.
 *
 *  - After the peer link has broken, each end repeats the messages that its
 *    state implies (engine/recovery/failover.c). The other end ignores
 *    repetitions. A repetition belongs to the current epoch of the end that
 *    receives it, or to one of the two epochs before. It can be two epochs
 *    old: end A in epoch n repeats its FENCED of n - 1 until A receives a
 *    message of epoch n. Until then, A's FENCED of n may have moved end B to
 *    n + 1. A correct peer sends no message of any other epoch.
 *
 *  - If both ends find the fault at the same time, each end has already sent
 *    its own FENCE when it receives the other's FENCE of the same epoch. It
 *    ignores that message.
 *
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
	MPIB_FENCE_STOPPED, /* this end has stopped, the peer has not */
	/* Both ends have stopped: no old write can arrive. */
	MPIB_FENCE_REPLAYING,
	MPIB_FENCE_DOWN, /* hold-down, or the port is down */
	/* New QPs are created and announced to the peer. */
	MPIB_FENCE_RECONNECTING,
	MPIB_FENCE_PROBING, /* probing the connected QPs */
};

struct mpib_fence {
	enum mpib_fence_state state;
	/* epoch of the current QPs; in REPLAYING and later states, of the next
	 * QPs */
	uint32_t epoch;
	bool healthy; /* this end's port is up */
	/* Events in this epoch: this end's probes were answered; the peer has
	 * sent FENCED, RECONNECT, UP. */
	bool probed;
	bool peer_fenced, peer_reconnects, peer_up;
};

/* Actions for the caller, in this order. */
enum {
	/* stop posting and move the QPs to ERR; after the flush call
	 * mpib_fence_stopped() */
	MPIB_FENCE_STOP = 1u << 0,
	MPIB_FENCE_TELL = 1u << 1, /* send FENCE of `epoch` */
	MPIB_FENCE_ANSWER = 1u << 2, /* send FENCED with the receive bitmaps */
	/* Find lost stripes by the peer's receive bitmaps, then call
	 * mpib_fence_replayed(). `epoch` is already the next one. */
	MPIB_FENCE_REPLAY = 1u << 3,
	/* Start or restart the hold-down. When it ends, call
	 * mpib_fence_hold_over(). */
	MPIB_FENCE_HOLD = 1u << 4,
	/* make QPs, send RECONNECT of `epoch` */
	MPIB_FENCE_RECONNECT = 1u << 5,
	/* connect to the QPs in the peer's RECONNECT and probe them, then call
	 * mpib_fence_probed() */
	MPIB_FENCE_CONNECT = 1u << 6,
	MPIB_FENCE_TELL_UP = 1u << 7, /* send UP of `epoch` */
	MPIB_FENCE_RESUME = 1u << 8, /* the rail may carry traffic again */
};

/* Start LIVE in epoch 0, as if RESUME had just been returned. */
void mpib_fence_init(struct mpib_fence *f, bool healthy);

/* Events at this end. Each function returns the resulting actions, or 0. */
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

/* Return whether both ends have completed the fence of this epoch. If so,
 * messages of this epoch are repetitions and are ignored. */
static inline bool mpib_fence_past(const struct mpib_fence *f, uint32_t epoch)
{
	return f->epoch - epoch - 1 < 2;
}

/* Handle a message of the peer. A repeated message has no effect. Return false
 * if a correct peer would not send the message in this state. */
bool mpib_fence_message(struct mpib_fence *f, enum mpib_fence_msg msg,
			uint32_t epoch, unsigned *actions);

#endif
