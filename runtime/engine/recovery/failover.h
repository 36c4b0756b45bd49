/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rail of a lane fails and comes back. The control thread of each end runs a
 * struct mpib_fence per rail (failover/fence.h says why it is safe) and tells
 * the other end by messages; the shard does what touches traffic: it notices
 * faults, stops, says what it has, posts again what was lost.
 *
 * Stripe k of a send op is what rail k was given. A stripe that a fence lost
 * travels again with an IMM whose mask is 0: the record it comes with says
 * which stripes it ends.
 */
#ifndef MPIB_ENGINE_FAILOVER_H
#define MPIB_ENGINE_FAILOVER_H

#include "engine/engine.h"
#include "engine/recovery/cause.h"
#include "failover/fence.h"

#define MPIB_RECV_BITMAPS 16 /* in one message */

struct mpib_lane_qp;
struct mpib_call;
struct ibv_wc;

/*
 * What one end of a connection has, said when its end of the rail was drained:
 * the receiver, which slots it has seen whole and which stripes of the others;
 * the sender, up to where it has CTS.
 */
struct mpib_recv_bitmap {
	uint32_t conn; /* the receiver's number of it */
	bool sender; /* who says so */
	uint64_t first; /* receiver: the oldest slot not ended; all before are.
			   Sender: the first slot whose CTS it has not */
	uint16_t slots; /* receiver: how many from there bits tells of */
	uint8_t seen[MPIB_SLOTS * MPIB_RAILS / 8]; /* 2 bits a slot */
};

enum mpib_rail_msg_type {
	MPIB_RAIL_FENCE = 1,
	MPIB_RAIL_FENCED, /* the last of them has more == 0 */
	MPIB_RAIL_RECONNECT,
	MPIB_RAIL_UP,
	MPIB_RAIL_DRAIN, /* leave the rail alone (on), or no longer */
};

/* Between the two ends of a lane. */
struct mpib_rail_msg {
	uint8_t type; /* enum mpib_rail_msg_type */
	uint8_t rail;
	uint32_t epoch;
	uint8_t cause; /* FENCE: enum mpib_rail_cause */
	bool on; /* DRAIN */
	struct mpib_lane_rail_info info; /* OFFER */
	bool more; /* FENCED */
	uint8_t bitmaps;
	struct mpib_recv_bitmap bitmap[MPIB_RECV_BITMAPS];
};

struct mpib_recv_bitmaps {
	struct mpib_recv_bitmap *v;
	uint32_t n, room;
};

/* One rail of a lane, on the control thread. */
struct mpib_rail_control {
	struct mpib_fence fence;
	struct mpib_lane_rail_info reconnect; /* the peer's */
	struct mpib_recv_bitmaps theirs; /* of the present fence */
	uint64_t hold_until, probe_until; /* 0: not set */
	uint64_t stopped_ns, resumed_ns;
	uint32_t failures; /* in a row, each doubles the hold-down */
	uint8_t cause; /* enum mpib_rail_cause */
	bool peer_drains;
	bool replaying; /* the shard has not let go of the old QPs */
};

struct mpib_lane_control {
	struct mpib_rail_control rail[MPIB_RAILS];
	uint64_t grace_until; /* 0: a rail is live */
	uint8_t last; /* rail that stopped last */
	bool settled; /* messages may be sent */
	bool over; /* killed: nothing more is done */
};

/* What the control thread has a shard do about a rail of a lane; its callback
 * gets it back. */
struct mpib_rail_job {
	struct mpib_lane *lane;
	unsigned rail;
	uint32_t epoch; /* of the QPs from now on */
	uint8_t drain; /* rails to be left alone */
	uint8_t cause; /* enum mpib_rail_cause */
	struct mpib_recv_bitmaps
		bitmaps; /* ours, made by stop; theirs, for replay */
	uint64_t lost_bytes; /* made by replay: what has to travel again */
	uint32_t lost_stripes;
	uint32_t acked_stripes; /* of these: the rail had acknowledged them */
};

/* One rail of a lane, on the shard. */
struct mpib_rail_stop {
	struct mpib_call *drained; /* who waits for it to be drained */
	struct mpib_call *probed; /* who waits for its probes */
	unsigned probes; /* still out */
	uint64_t fault_ns; /* when it was found at fault, 0: it is not */
};

/* What the watchdog knows of it; times in ns. */
struct mpib_rail_watch {
	uint64_t stuck; /* without progress, while something is outstanding */
	uint32_t seen; /* sum of retired WRs when it last looked */
	uint32_t unsignaled; /* unsignalled WRs on top when it last looked */
	uint64_t moves; /* looks that saw progress */
	uint64_t moves_other; /* of the other rail, when this one got stuck */
};

/*
 * failover.c and reconnect.c: control thread.
 */
/* The lane is connected and its other end can be told things. */
void mpib_lane_established(struct mpib_lane *lane);
/* A message of the other end. False: no sound peer sends it now. */
bool mpib_lane_receive(struct mpib_lane *lane, const struct mpib_rail_msg *msg);
/* The one place where the state of a port comes in, whoever saw it change: of
 * one shard's context of the rail. */
void mpib_engine_rail_port(struct mpib_engine *engine, unsigned shard,
			   unsigned rail, bool up);
/* Have all lanes move traffic off the rail, or use it again, at both ends. A
 * lane that has no other rail goes on with it. */
void mpib_rail_drain(struct mpib_engine *engine, unsigned rail, bool on);
/* Before the first lane. -errno. */
int mpib_failover_init(struct mpib_engine *engine);
void mpib_failover_fini(struct mpib_engine *engine);
/* Hold-downs, probes and graces that are over. */
void mpib_failover_dispatch(struct mpib_engine *engine);
/* A shard found a rail at fault. */
void mpib_failover_fault(struct mpib_lane *lane, unsigned rail,
			 enum mpib_rail_cause cause);
/* The lane is being killed: nothing more is done for it. */
void mpib_failover_end(struct mpib_lane *lane);
/* For each other: run fn on the shard for the rail, then done with the job,
 * which it frees. */
struct mpib_msg;
struct mpib_rail_job *mpib_rail_job_new(struct mpib_lane *lane, unsigned rail);
void mpib_rail_job_free(struct mpib_rail_job *job);
void mpib_rail_job_run(struct mpib_rail_job *job, void (*fn)(struct mpib_msg *),
		       mpib_done_fn *done);
void mpib_rail_act(struct mpib_lane *lane, unsigned rail, unsigned actions);
void mpib_rail_send(struct mpib_lane *lane, struct mpib_rail_msg *msg,
		    unsigned type, unsigned rail, uint32_t epoch);
void mpib_rail_arm(struct mpib_engine *engine, uint64_t at);
/* reconnect.c */
void mpib_rail_reconnect(struct mpib_lane *lane, unsigned rail);
void mpib_rail_connect(struct mpib_lane *lane, unsigned rail);
void mpib_rail_resume(struct mpib_lane *lane, unsigned rail);
void mpib_rail_hold(struct mpib_lane *lane, unsigned rail);
/* No rail is left: those that wait out a hold-down come back soon. */
void mpib_rail_hold_last(struct mpib_lane *lane);
/* Without any hold-down. */
void mpib_rail_back(struct mpib_lane *lane, unsigned rail);
void mpib_rail_drained_set(struct mpib_lane *lane);
void mpib_rail_tell_drain(struct mpib_lane *lane, unsigned rail, bool on);

/*
 * lost.c: a shard's context of the rail is of no use any more, and the shard
 * goes on without it. Before mpib_engine_rail_port() is told. Control thread.
 */
struct mpib_shard;
void mpib_rail_lose(struct mpib_shard *s, unsigned rail);

#endif
