/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failure and return of a lane's rail. At each end, the control thread runs a
 * struct mpib_fence per rail and exchanges messages with the peer's proxy.
 * failover/fence.h explains why this is safe. The shard thread detects faults,
 * stops the rail, makes the receive bitmaps, and posts lost stripes again.
 *
 * Stripe k of a send op is the part first posted to rail k. A lost stripe is
 * posted again with an IMM whose mask is 0. The completion record that comes
 * with this IMM tells which stripes the IMM ends.
 */
#ifndef MPIB_ENGINE_FAILOVER_H
#define MPIB_ENGINE_FAILOVER_H

#include <mpib/wire.h>

#include "engine/engine.h"
#include "failover/fence.h"
#include "verbs/verbs.h"

#define MPIB_RECV_BITMAPS 16 /* maximum of bitmaps in a FENCED message */

struct mpib_call;
struct mpib_shard;

/* The state of one end of a connection when the rail stopped at that end. A
 * receiver reports which slots have ended, and which stripes of the other slots
 * have arrived. A sender reports up to which slot it has CTS. */
struct mpib_recv_bitmap {
	uint32_t conn; /* the connection's number at the receiver */
	bool sender; /* true: made by the sender's end */
	/* receiver: oldest slot that has not ended; sender: first slot without
	 * a CTS */
	uint64_t first;
	/* Receiver: number of slots in `seen`, the first of which is
	 * `first`. */
	uint16_t slots;
	uint8_t seen[MPIB_TABLE_SLOTS * MPIB_RAILS / 8]; /* 2 bits per slot */
};

enum mpib_rail_msg_type {
	MPIB_RAIL_FENCE = 1,
	/* This end has stopped. The message contains receive bitmaps. If one
	 * message is not enough, `more` is set in all messages except the
	 * last. */
	MPIB_RAIL_FENCED,
	MPIB_RAIL_RECONNECT, /* the new QPs of this end */
	MPIB_RAIL_UP, /* the probes of this end succeeded */
	/* If `on` is set, post nothing new on the rail; else use it again. */
	MPIB_RAIL_DRAIN,
	/* asks whether the rail makes progress at the peer; LOOKED is the
	 * answer */
	MPIB_RAIL_LOOK,
	MPIB_RAIL_LOOKED, /* answer: the shard has checked the rail (watch.c) */
};

/* A message between the proxies of the two ends of a lane (peer link). */
struct mpib_rail_msg {
	uint8_t type; /* enum mpib_rail_msg_type */
	uint8_t rail;
	uint32_t epoch;
	uint8_t cause; /* FENCE: enum mpib_rail_cause */
	bool on; /* DRAIN */
	bool moved; /* LOOKED: bytes arrived during the check */
	struct mpib_lane_rail_info info; /* RECONNECT */
	bool more; /* FENCED */
	bool lost; /* FENCED: this end has lost its device */
	uint8_t bitmaps;
	struct mpib_recv_bitmap bitmap[MPIB_RECV_BITMAPS];
};

struct mpib_recv_bitmaps {
	struct mpib_recv_bitmap *v;
	uint32_t n, room;
	/* The end that made the bitmaps has lost its device. Writes that the
	 * device had acknowledged may be lost, too. */
	bool lost;
	/* In mpib_rail_control.ours: the bitmaps are valid, even if their
	 * number is 0. */
	bool kept;
};

/* The reason why the peer's shard is asked to check the rail (failover.c). */
enum mpib_rail_ask {
	MPIB_ASK_NOTHING,
	/* to learn whether the peer's QPs are connected, so that probes may be
	 * sent */
	MPIB_ASK_CONNECTED,
	MPIB_ASK_PROBES, /* the probes of this end were not answered in time */
	MPIB_ASK_STUCK, /* the watchdog suspects the rail */
};

/* One rail of a lane, on the control thread. */
struct mpib_rail_control {
	struct mpib_fence fence;
	struct mpib_lane_rail_info reconnect; /* the peer's new QPs */
	/* the peer's bitmaps, for the current fence */
	struct mpib_recv_bitmaps theirs;
	/* This end's bitmaps of two epochs, indexed by the epoch's lowest bit.
	 * The bitmaps of an epoch remain until the peer sends a message of the
	 * next epoch. */
	struct mpib_recv_bitmaps ours[2];
	/* Deadline of the fence's state, 0: none. STOPPING and STOPPED: the
	 * next tick; DOWN: the end of the hold-down; PROBING: the end of the
	 * attempt. */
	uint64_t due;
	uint32_t stop_ticks; /* ticks that the current stop has taken */
	uint64_t stopped_ns, resumed_ns;
	/* number of successive failures, each soon after the rail came back */
	uint32_t failures;
	/* how often the port went down, as reported to the fence */
	uint32_t downs;
	uint8_t cause; /* cause of the last stop, enum mpib_rail_cause */
	bool peer_drains; /* the peer's proxy sent DRAIN */
	uint8_t asks; /* enum mpib_rail_ask, until the rail is judged */
	/* the peer has answered, and this end's shard is checking */
	bool answered;
	/* looking: the peer asked in epoch look_epoch, and this end's shard is
	 * checking the rail. look_again: the peer has asked again during the
	 * check. */
	bool looking, look_again;
	uint32_t look_epoch;
};

struct mpib_lane_control {
	struct mpib_rail_control rail[MPIB_RAILS];
	uint64_t conns; /* number of connections that the lane ever had */
	uint64_t grace_until; /* end of the grace period; 0: a rail is live */
	uint8_t last; /* rail that stopped last */
	bool settled; /* messages may be sent to the peer's proxy */
	bool over; /* the lane is being killed: carry out no more actions */
};

/* A job that the control thread gives to the shard, for one rail of a lane.
 * Afterwards the control thread runs then() with the job. */
struct mpib_rail_job;
typedef void mpib_rail_then_fn(struct mpib_rail_job *job, int status);

struct mpib_rail_job {
	struct mpib_lane *lane;
	unsigned rail;
	mpib_rail_then_fn *then; /* or NULL */
	uint32_t epoch; /* epoch of the rail's next QPs */
	uint8_t drain; /* for mpib_rail_on_drain(): mask of drained rails */
	uint8_t cause; /* enum mpib_rail_cause */
	bool grace; /* for mpib_rail_on_late(): the grace period has ended */
	/* this end's bitmaps, made by mpib_rail_on_stop(); or the peer's
	 * bitmaps, for mpib_rail_on_bitmaps() */
	struct mpib_recv_bitmaps bitmaps;
	uint64_t stopped_ns; /* when the rail last stopped */
	/* Result of mpib_rail_on_bitmaps(): the bytes that must be posted
	 * again, and the duration of the fence. */
	uint64_t lost_bytes, fenced_ns;
	uint32_t lost_stripes;
	/* how many of lost_stripes the rail had acknowledged */
	uint32_t acked_stripes;
	struct mpib_rail_look {
		/* The check is for MPIB_ASK_STUCK. */
		bool stuck;
		bool begun;
		bool moved;
		uint8_t passes;
		struct mpib_motion from;
	} look; /* for mpib_rail_on_look() */
};

/*
 * The state of a rail of a lane on the shard thread. Only mpib_rail_enter()
 * changes it. The state on the control thread is fence.state.
 *
 *   LIVE, PROBING --a fault, or a stop by the control thread--> STOPPING
 *   STOPPING --all WRs flushed, this end's bitmaps made--> STOPPED
 *   STOPPED --the peer's bitmaps arrived, lost stripes found--> DOWN
 *   DOWN --the control thread connected new QPs--> PROBING
 *   PROBING --probed at both ends--> LIVE
 *
 * A rail without QPs can be fenced, too. It stays in DOWN, because there is
 * nothing to flush.
 */
enum mpib_lane_rail_state {
	MPIB_RAIL_DOWN, /* no QPs belong to the shard */
	MPIB_RAIL_PROBING, /* the new QPs carry only probes */
	MPIB_RAIL_LIVE, /* carries traffic */
	/* Nothing more is posted. Completions are still handled. */
	MPIB_RAIL_STOPPING,
	/* Completions are ignored, so that the bitmaps stay valid. */
	MPIB_RAIL_STOPPED,
};

/* One rail of a lane, on the shard thread. */
struct mpib_lane_rail {
	enum mpib_lane_rail_state state;
	unsigned probes; /* number of probes without a completion */
	struct mpib_call *stopped; /* answered when the rail has stopped */
	struct mpib_call *probed; /* answered when all probes completed */
};

/* The watchdog's record of one rail of a lane. */
struct mpib_rail_watch {
	/* Time in ns without progress while WRs are outstanding, without the
	 * times in which the watchdog itself ran late. */
	uint64_t stuck;
	uint32_t seen; /* number of retired WRs at the watchdog's last check */
	/* number of unsignalled WRs after the last signalled one, at the
	 * watchdog's last check */
	uint32_t unsignaled;
	uint64_t moves; /* number of checks that saw progress */
	/* Value of the other rail's `moves` when this rail got stuck. */
	uint64_t moves_other;
	/* number of retired WRs when the peer was asked */
	uint32_t asked_retired;
	bool asked; /* the peer was asked, but the rail is not judged yet */
};

/*
 * failover.c: control thread.
 */
/* Call when the lane is connected and messages can be sent to the peer's
 * proxy. */
void mpib_lane_established(struct mpib_lane *lane);
/* Handle a message of the peer's proxy. Return false if a correct peer would
 * not send the message in the current state. */
bool mpib_lane_receive(struct mpib_lane *lane, const struct mpib_rail_msg *msg);
/* Call when the peer link broke: drop a partly received FENCED, which the peer
 * will repeat. */
void mpib_lane_unlinked(struct mpib_lane *lane);
/* Call when the peer link is up again: repeat the messages that the states of
 * the rails imply. */
void mpib_lane_retell(struct mpib_lane *lane);
/* Handle a change of a port's state as the shard's context sees it. All changes
 * go through this function, except the loss of a device (mpib_rail_lose()). */
void mpib_rail_port(struct mpib_shard *s, unsigned rail, bool up);
/* Apply a change of mpib_engine_drained() for the device: both ends of its
 * lanes post nothing new on drained rails. A lane that has no other rail
 * continues to use a drained rail. */
void mpib_rail_drain(struct mpib_engine *engine, unsigned device);
/* Call before the first lane is created. Return 0 or -errno. */
int mpib_failover_init(struct mpib_engine *engine);
void mpib_failover_fini(struct mpib_engine *engine);
/* Handle changes of ports and expired time limits. For many lanes, stopping
 * rails and creating QPs takes seconds, during which clients and peers would
 * have to wait. So each call works for at most this time, and the next calls do
 * the rest. */
#define MPIB_RAIL_TURN_NS 20000000u
void mpib_failover_dispatch(struct mpib_engine *engine);
/* Arm the timer so that mpib_failover_dispatch() runs at this time or
 * earlier. */
void mpib_rail_arm(struct mpib_engine *engine, uint64_t at);
/* Handle a fault of the lane's rail that a shard found. */
void mpib_failover_fault(struct mpib_lane *lane, unsigned rail,
			 enum mpib_rail_cause cause);
/* Handle a shard's suspicion that the rail is stuck in this epoch. A rail is
 * never judged by the clock alone, because the peer's process may have had no
 * CPU time. So ask the peer's shard to check the rail. After the peer's answer,
 * this end's shard checks the rail, too, and only then is the rail judged. If
 * the peer does not answer, the rail is not judged. */
void mpib_failover_suspect(struct mpib_lane *lane, unsigned rail,
			   uint32_t epoch);
/* Carry out no more actions for a lane that is being killed. */
void mpib_failover_end(struct mpib_lane *lane);
void mpib_rail_job_free(struct mpib_rail_job *job);

/*
 * stop.c: the device context that the shard uses for the rail has failed for
 * good. From then on, the shard works without the rail, and no object is
 * created on it (rail/rail.h). mpib_async_port() runs later: the caller of this
 * function may be creating an object or iterating over the lanes. No effect if
 * the rail is dead already. `why` must be a string literal. Control thread.
 */
void mpib_rail_lose(struct mpib_shard *s, unsigned rail, const char *why);

#endif
