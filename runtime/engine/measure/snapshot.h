/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of the whole engine. Each shard copies its counters between two
 * turns. So within a shard, the bytes per rail equal the sum of the bytes per
 * connection. Counters only grow: the bytes of closed connections and clients
 * remain in the sums of rails and lanes. */
#ifndef MPIB_ENGINE_SNAPSHOT_H
#define MPIB_ENGINE_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/engine.h"
#include "engine/measure/counters.h"
#include "engine/split/mode.h"

#define MPIB_LABEL_MAX 64

/* Payload and WRs on one rail; CTS and records do not count as payload. */
struct mpib_rail_counts {
	MPIB_MOVED_COUNTERS(MPIB_COUNTER_FIELD, MPIB_COUNTER_FIELD)
};

static inline void mpib_rail_counts_add(struct mpib_rail_counts *sum,
					const struct mpib_rail_counts *n)
{
	MPIB_MOVED_COUNTERS(MPIB_COUNTER_ADD, MPIB_COUNTER_ADD)
}

static inline void mpib_rail_counts_sub(struct mpib_rail_counts *sum,
					const struct mpib_rail_counts *n)
{
	MPIB_MOVED_COUNTERS(MPIB_COUNTER_SUB, MPIB_COUNTER_SUB)
}

/* Fences of a rail, summed over its lanes. The time of a fence starts when the
 * fault is detected and ends when the lost stripes are known. */
struct mpib_snap_failover {
	uint64_t count[MPIB_CAUSES]; /* by enum mpib_rail_cause */
	MPIB_FAILOVER_COUNTERS(MPIB_COUNTER_FIELD)
	uint64_t last_ns, max_ns, sum_ns;
	uint64_t last_at; /* when last_ns was measured, monotonic ns */
};

struct mpib_snap_rail {
	struct mpib_rail_counts n;
	struct mpib_snap_failover failover;
	MPIB_RAIL_COUNTERS(MPIB_COUNTER_FIELD, MPIB_COUNTER_FIELD)
	uint32_t srq_posted, qps;
	bool up, drained;
	/* State of the port after its last event; zeros if the device never
	 * answered. */
	uint8_t mtu; /* enum ibv_mtu */
	uint64_t speed_mbps;
	union ibv_gid gid;
};

struct mpib_snap_shard {
	MPIB_SHARD_COUNTERS(MPIB_COUNTER_FIELD)
	MPIB_SHARD_TIMES(MPIB_COUNTER_FIELD)
};

/* The reason why a connection is stalled. Each wait counts once. */
enum mpib_stall {
	MPIB_STALL_NONE,
	MPIB_STALL_CTS, /* no clear-to-send */
	/* send: too many send ops in flight; receive: no free slot */
	MPIB_STALL_SLOT,
	MPIB_STALL_SQ, /* a send queue or its completion queue is full */
	MPIB_STALL_WINDOW, /* the lane's window is full */
	MPIB_STALL_SHARE, /* another DRR class has its turn on the rail */
	MPIB_STALLS,
};

/* Acknowledgements on a rail of a lane, see split/adapt.h. */
struct mpib_snap_track {
	uint64_t acked, acked_bytes, busy_ns, inflight;
	uint64_t srtt, latency, oldest_ns; /* ns; 0: none */
};

struct mpib_snap_lane {
	uint32_t shard;
	uid_t uid;
	uint8_t imm_version, path; /* enum mpib_path */
	uint8_t spread; /* enum mpib_spread */
	uint8_t traffic_class; /* requested; 0: the configured one */
	uint32_t spread_above[MPIB_RAILS]; /* bytes, UINT32_MAX: never */
	/* fragments dropped, because they arrived late or twice */
	uint64_t late;
	bool broken;
	uint8_t live; /* mask of the rails that the lane can use now */
	char peer[MPIB_LABEL_MAX];
	/* GIDs of the peer's ports when the lane was connected; zeros: none. */
	union ibv_gid peer_gid[MPIB_RAILS];
	uint32_t qps[MPIB_RAILS], conns;
	/* Messages of the lane's connections, including closed ones. */
	uint64_t messages;
	struct mpib_rail_counts n[MPIB_RAILS];
	struct mpib_snap_track track[MPIB_RAILS];
};

struct mpib_snap_conn {
	uint32_t client, index, shard;
	uint32_t lane; /* index into mpib_snapshot.lane */
	bool sender, broken;
	char peer[MPIB_LABEL_MAX];
	int32_t local_rank, remote_rank; /* from tags; -1: unknown */
	uint32_t outstanding; /* requests */
	uint64_t messages;
	uint64_t stalls[MPIB_STALLS], stall_ns[MPIB_STALLS];
	uint64_t oldest_ns; /* age of the oldest request, 0: none */
	struct mpib_rail_counts n[MPIB_RAILS];
	struct mpib_split_why why;
};

/* The totals of a client's closed connections. */
struct mpib_snap_client {
	uint32_t id;
	/* number of DRR rounds that reached the rate limit of the client or its
	 * tenant */
	uint64_t held;
	uint64_t closed_messages;
	struct mpib_rail_counts closed[MPIB_RAILS];
};

/* The progress of a request, or what it waits for. */
enum mpib_last {
	/* Send: mpib_isend() refuses it because all requests are in use. */
	MPIB_LAST_REFUSED,
	MPIB_LAST_QUEUED, /* behind other requests of its connection */
	MPIB_LAST_NO_CTS, /* send: the peer posted no receive for it */
	MPIB_LAST_NO_SLOT, /* send: too many send ops are in flight */
	MPIB_LAST_NO_SQ, /* send: the send queue is full */
	MPIB_LAST_NO_WINDOW, /* send: the lane's window is full */
	MPIB_LAST_NO_SHARE, /* send: another DRR class has its turn */
	MPIB_LAST_LIMITED, /* send: the rate limit of the connection, client or
			      tenant */
	MPIB_LAST_NO_GROUP, /* send: other sends of its group are missing */
	MPIB_LAST_UNACKED, /* send: posted, not acknowledged by a rail */
	MPIB_LAST_UNDELIVERED, /* send: acknowledged, but no end-to-end ack */
	MPIB_LAST_NO_DATA, /* the client has submitted only part of it */
	MPIB_LAST_CTS_UNSENT, /* receive: no room to post its CTS */
	MPIB_LAST_NO_SENDER, /* receive: CTS posted, nothing arrived */
	MPIB_LAST_NO_IMM, /* receive: a rail's IMM is missing */
	/* receive: complete, but an earlier receive is not */
	MPIB_LAST_ARRIVED,
	MPIB_LASTS,
};

/* mpib_last_word() returns a key whose meaning never changes. mpib_last_text()
 * returns a text for humans. */
const char *mpib_last_word(enum mpib_last last);
const char *mpib_last_text(enum mpib_last last);

#define MPIB_SNAP_REQUESTS 4096u

struct mpib_snap_request {
	uint32_t conn; /* index into mpib_snapshot.conn */
	enum mpib_last last;
	/* one bit per rail that the request waits for, if known */
	uint8_t rails;
	uint64_t age_ns;
	uint32_t bytes, done; /* size of the request, and bytes completed */
};

struct mpib_snapshot {
	/* Rails of all devices, by rail number. Each entry sums up the counts
	 * of all shards of this device. */
	struct mpib_snap_rail rail[MPIB_RAILS_MAX];
	struct mpib_snap_shard shard[MPIB_SHARDS_MAX];
	uint32_t rails; /* rails per device */
	/* Totals of all devices. */
	uint32_t devices, shards, lanes, conns, clients;
	struct mpib_snap_lane *lane;
	struct mpib_snap_conn *conn;
	struct mpib_snap_client *client;
	/* Set only by mpib_engine_snapshot_requests(). requests: number of
	 * entries in `request`, at most MPIB_SNAP_REQUESTS. more_requests:
	 * number of requests that did not fit. */
	uint32_t requests, more_requests;
	struct mpib_snap_request *request;
};

/* Return how many entries rail[] has. */
static inline unsigned mpib_snap_rails(const struct mpib_snapshot *snap)
{
	return snap->devices * snap->rails;
}

/* Return the device of a shard. */
static inline unsigned mpib_snap_device(const struct mpib_snapshot *snap,
					unsigned shard)
{
	return shard / (snap->shards / snap->devices);
}

/* Take a snapshot. Control thread. Return -ENOMEM if memory is short. fn() runs
 * later on the control thread and must free the snapshot
 * (mpib_snapshot_free()). Shards are not stopped: each copies its counters
 * between two turns. */
typedef void mpib_snapshot_fn(void *arg, struct mpib_snapshot *snap);
int mpib_engine_snapshot(struct mpib_engine *engine, mpib_snapshot_fn *fn,
			 void *arg);
/* Like mpib_engine_snapshot(). The snapshot also lists requests that are at
 * least older_ns old. */
int mpib_engine_snapshot_requests(struct mpib_engine *engine, uint64_t older_ns,
				  mpib_snapshot_fn *fn, void *arg);
void mpib_snapshot_free(struct mpib_snapshot *snap);

/* Set the name of the lane's peer, for tools and logs. Control thread, before
 * mpib_lane_connect(). */
void mpib_lane_set_label(struct mpib_lane *lane, const char *peer);

#endif
