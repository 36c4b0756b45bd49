/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of the whole engine. Each shard copies its counters between two
 * turns, so that within a shard the bytes per rail equal the sum of the bytes
 * per connection. Counters only grow: the bytes of closed connections and
 * clients stay in the sums of rails and lanes.
 */
#ifndef MPIB_ENGINE_SNAPSHOT_H
#define MPIB_ENGINE_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/engine.h"
#include "engine/recovery/cause.h"
#include "engine/split/policy.h"

#define MPIB_LABEL_MAX 64

/* Payload and work on one rail: of a connection, a lane, a client or the rail
 * as a whole. */
struct mpib_rail_counts {
	uint64_t tx_bytes, rx_bytes; /* payload; CTS and records not counted */
	/* All send WRs, also those of CTS and records; WRs of a spread part
	 * count when they are given to the virtual QP. */
	uint64_t tx_wrs;
	uint64_t rx_imms; /* receive completions */
	uint64_t cts; /* CTS writes posted */
	uint64_t posts; /* calls of ibv_post_send(), a chain each */
	uint64_t tx_imms; /* WRITE_WITH_IMM posted: ends of slots on a rail */
	uint64_t tx_cqes; /* send completions */
	uint64_t replays, replayed_bytes; /* stripes posted again by replay */
};

static inline void mpib_rail_counts_add(struct mpib_rail_counts *sum,
					const struct mpib_rail_counts *n)
{
	sum->tx_bytes += n->tx_bytes;
	sum->rx_bytes += n->rx_bytes;
	sum->tx_wrs += n->tx_wrs;
	sum->rx_imms += n->rx_imms;
	sum->cts += n->cts;
	sum->posts += n->posts;
	sum->tx_imms += n->tx_imms;
	sum->tx_cqes += n->tx_cqes;
	sum->replays += n->replays;
	sum->replayed_bytes += n->replayed_bytes;
}

static inline void mpib_rail_counts_sub(struct mpib_rail_counts *sum,
					const struct mpib_rail_counts *n)
{
	sum->tx_bytes -= n->tx_bytes;
	sum->rx_bytes -= n->rx_bytes;
	sum->tx_wrs -= n->tx_wrs;
	sum->rx_imms -= n->rx_imms;
	sum->cts -= n->cts;
	sum->posts -= n->posts;
	sum->tx_imms -= n->tx_imms;
	sum->tx_cqes -= n->tx_cqes;
	sum->replays -= n->replays;
	sum->replayed_bytes -= n->replayed_bytes;
}

/*
 * Fences of a rail, summed over its lanes: the rail stopped, was fenced at both
 * ends, and its lost stripes went over another rail. Times run from noticing
 * the fault to knowing what was lost. The sender's tx_bytes - lost_bytes of a
 * rail equals the receiver's rx_bytes.
 */
struct mpib_snap_failover {
	uint64_t count[MPIB_CAUSES]; /* by enum mpib_rail_cause */
	uint64_t failbacks; /* traffic uses the rail again */
	uint64_t lost_bytes, lost_stripes; /* lost by this rail */
	uint64_t acked_stripes; /* of lost_stripes: acknowledged by the rail,
				   but not seen by the receiver */
	uint64_t replayed_bytes; /* posted again to this rail, lost by any */
	uint64_t last_ns, max_ns, sum_ns;
	uint64_t last_at; /* when last_ns was measured, monotonic ns */
};

struct mpib_snap_rail {
	struct mpib_rail_counts n;
	struct mpib_snap_failover failover;
	uint64_t cqes, cqe_errors, posts, srq_refills, stale_imms, bad_imms;
	uint64_t srq_limits; /* times the device found an SRQ nearly empty */
	uint64_t downs; /* times the rail was told to be down */
	/* Fences of this rail, of all lanes, and how long they took in all. */
	uint64_t failovers, failover_ns;
	uint32_t srq_posted, qps;
	bool up, drained;
};

struct mpib_snap_shard {
	uint64_t turns, busy_turns, sleeps;
	/* Time of turns that found work, of turns that found none, and of
	 * sleep; idle_ns includes slept_ns. */
	uint64_t busy_ns, idle_ns, slept_ns;
};

/* Why a connection cannot go on. Each wait counts once. */
enum mpib_stall {
	MPIB_STALL_NONE,
	MPIB_STALL_CTS, /* no clear-to-send */
	MPIB_STALL_SLOT, /* send: too many send ops; receive: no free slot */
	MPIB_STALL_SQ, /* a send queue or its completion queue is full */
	MPIB_STALL_WINDOW, /* enough bytes of the lane are in flight */
	MPIB_STALL_SHARE, /* it is another DRR class's turn on the rail */
	MPIB_STALLS,
};

/* Acknowledgements on a rail of a lane, see split/tracker.h. */
struct mpib_snap_track {
	uint64_t acked, acked_bytes, busy_ns, inflight;
	uint64_t srtt, latency, oldest_ns; /* ns; 0: none */
};

struct mpib_snap_lane {
	uint32_t shard;
	uid_t uid;
	uint8_t imm_version, path; /* enum mpib_path */
	uint8_t spread; /* enum mpib_spread */
	uint8_t traffic_class; /* as asked for; 0: as configured */
	uint32_t spread_above[MPIB_RAILS]; /* bytes, UINT32_MAX: never */
	uint64_t late; /* numbered fragments dropped: too late or twice */
	bool broken;
	char peer[MPIB_LABEL_MAX];
	uint32_t qps[MPIB_RAILS], conns;
	uint64_t messages; /* of the lane's connections, also of closed ones */
	struct mpib_rail_counts n[MPIB_RAILS];
	struct mpib_snap_track track[MPIB_RAILS];
};

struct mpib_snap_conn {
	uint32_t client, index, shard;
	uint32_t lane; /* index into mpib_snapshot.lane */
	bool sender, broken;
	char peer[MPIB_LABEL_MAX];
	int32_t local_rank, remote_rank; /* from tags, -1 unknown */
	uint32_t outstanding; /* requests */
	uint64_t messages;
	uint64_t stalls[MPIB_STALLS], stall_ns[MPIB_STALLS];
	uint64_t oldest_ns; /* age of the oldest request, 0: none */
	struct mpib_rail_counts n[MPIB_RAILS];
	struct mpib_split_why why;
	uint32_t weight; /* among the connections of its client */
	uint64_t rate; /* bytes a second, 0: no limit */
};

/* The totals of a client's closed connections. */
struct mpib_snap_client {
	uint32_t id;
	uint64_t held; /* DRR rounds in which the rate limit of the client or
			  of its tenant was reached */
	uint64_t closed_messages;
	struct mpib_rail_counts closed[MPIB_RAILS];
};

/* How far a request has come, or what it waits for. */
enum mpib_last {
	MPIB_LAST_QUEUED, /* behind other requests of its connection */
	MPIB_LAST_NO_CTS, /* send: the peer posted no receive for it */
	MPIB_LAST_NO_SLOT, /* send: too many send ops are in flight */
	MPIB_LAST_NO_SQ, /* send: the send queue is full */
	MPIB_LAST_NO_WINDOW, /* send: the lane has enough in flight */
	MPIB_LAST_NO_SHARE, /* send: it is another DRR class's turn */
	MPIB_LAST_LIMITED, /* send: the rate limit of the connection, client or
			      tenant */
	MPIB_LAST_NO_GROUP, /* send: other sends of its group are missing */
	MPIB_LAST_UNACKED, /* send: posted, not acknowledged by a rail */
	MPIB_LAST_UNDELIVERED, /* send: acknowledged, no end-to-end ack */
	MPIB_LAST_NO_DATA, /* the client submitted only a part of it yet */
	MPIB_LAST_CTS_UNSENT, /* receive: no room to post its CTS */
	MPIB_LAST_NO_SENDER, /* receive: CTS posted, nothing arrived */
	MPIB_LAST_NO_IMM, /* receive: the IMM of some rail is missing */
	MPIB_LAST_ARRIVED, /* receive: whole, but an earlier one is not */
	MPIB_LASTS,
};

/* word: a key that never changes its meaning; text: for people. */
const char *mpib_last_word(enum mpib_last last);
const char *mpib_last_text(enum mpib_last last);

#define MPIB_SNAP_REQUESTS 4096u

struct mpib_snap_request {
	uint32_t conn; /* index into mpib_snapshot.conn */
	enum mpib_last last;
	uint8_t rails; /* bit per rail it waits for, as far as is known */
	uint64_t age_ns;
	uint32_t bytes, done; /* bytes of the whole request, and completed */
};

struct mpib_snapshot {
	/* Rails of all devices, by number, each over the device's shards. */
	struct mpib_snap_rail rail[MPIB_RAILS_MAX];
	struct mpib_snap_shard shard[MPIB_SHARDS_MAX];
	uint32_t rails; /* of a device */
	uint32_t devices, shards, lanes, conns, clients; /* of all */
	struct mpib_snap_lane *lane;
	struct mpib_snap_conn *conn;
	struct mpib_snap_client *client;
	/* Only by mpib_engine_snapshot_requests(): at most MPIB_SNAP_REQUESTS,
	 * and how many more there were. */
	uint32_t requests, more_requests;
	struct mpib_snap_request *request;
};

/* How many entries of rail[] there are. */
static inline unsigned mpib_snap_rails(const struct mpib_snapshot *snap)
{
	return snap->devices * snap->rails;
}

/* The device of a shard. */
static inline unsigned mpib_snap_device(const struct mpib_snapshot *snap,
					unsigned shard)
{
	return shard / (snap->shards / snap->devices);
}

/*
 * Control thread; -ENOMEM when memory is short. fn runs on the control thread
 * later and owns the snapshot (mpib_snapshot_free()). Shards are not stopped:
 * each copies its counters between two turns.
 */
typedef void mpib_snapshot_fn(void *arg, struct mpib_snapshot *snap);
int mpib_engine_snapshot(struct mpib_engine *engine, mpib_snapshot_fn *fn,
			 void *arg);
/* Like mpib_engine_snapshot(), with all requests at least older_ns old. */
int mpib_engine_snapshot_requests(struct mpib_engine *engine, uint64_t older_ns,
				  mpib_snapshot_fn *fn, void *arg);
void mpib_snapshot_free(struct mpib_snapshot *snap);

/* The name of the lane's peer, for tools and logs. Control thread, before
 * mpib_lane_connect(). */
void mpib_lane_set_label(struct mpib_lane *lane, const char *peer);

#endif
