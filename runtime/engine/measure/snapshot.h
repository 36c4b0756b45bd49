/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of the whole engine, taken by each shard between two turns, so that
 * within a shard bytes by rail equal bytes by connection. Counters only grow; what
 * closed connections and clients moved stays in the rails' and lanes' sums.
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

/* Payload and work of one rail, whoever counts it. */
struct mpib_rail_counts {
	uint64_t tx_bytes, rx_bytes; /* payload; CTS and records not counted */
	/* All send WRs, CTS and records too; of a part that is spread when
	 * they are handed to its virtual QP. */
	uint64_t tx_wrs;
	uint64_t rx_imms; /* receive completions */
	uint64_t cts; /* CTS writes posted */
	uint64_t posts; /* calls of ibv_post_send(), a chain each */
	uint64_t tx_imms; /* sends with an immediate value: ends of parts */
	uint64_t tx_cqes; /* send completions */
	uint64_t replays, replayed_bytes; /* work sent again after a failure */
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
 * A rail of a lane stopped, was fenced at both ends, and what it had went over
 * another rail. Times run from noticing the fault to having judged what was
 * lost. At the sender tx_bytes - lost_bytes of a rail is what the receiver's
 * rx_bytes counts.
 */
struct mpib_snap_failover {
	uint64_t count[MPIB_CAUSES]; /* by enum mpib_rail_cause */
	uint64_t failbacks; /* traffic uses the rail again */
	uint64_t lost_bytes, lost_stripes; /* of this rail, to travel again */
	uint64_t acked_stripes; /* of these: acknowledged, and not seen */
	uint64_t replayed_bytes; /* over this rail, lost by whichever */
	uint64_t last_ns, max_ns, sum_ns;
};

struct mpib_snap_rail {
	struct mpib_rail_counts n;
	struct mpib_snap_failover failover;
	uint64_t cqes, cqe_errors, posts, srq_refills, stale_imms, bad_imms;
	uint64_t srq_limits; /* times the device found an SRQ nearly empty */
	uint64_t downs; /* times the rail was told to be down */
	/* Lanes moved off this rail, and how long that took in all. */
	uint64_t failovers, failover_ns;
	uint32_t srq_posted, qps;
	bool up, drained;
};

struct mpib_snap_shard {
	uint64_t turns, busy_turns, sleeps;
	/* Time of turns that moved something, of the others, and of sleep,
	 * which counts as idle, too. */
	uint64_t busy_ns, idle_ns, slept_ns;
};

/* Why a connection cannot go on. Each wait counts once. */
enum mpib_stall {
	MPIB_STALL_NONE,
	MPIB_STALL_CTS, /* no clear-to-send */
	MPIB_STALL_SLOT, /* no receive slot, no room for a send op in flight */
	MPIB_STALL_SQ, /* a send queue or its completion queue is full */
	MPIB_STALL_WINDOW, /* enough bytes of the lane are in flight */
	MPIB_STALL_SHARE, /* it is another's turn on the rail */
	MPIB_STALLS,
};

/* What a rail of a lane answered, see tracker.h. */
struct mpib_snap_track {
	uint64_t acked, acked_bytes, busy_ns, inflight;
	uint64_t srtt, latency, oldest_ns; /* ns; 0: none */
};

struct mpib_snap_lane {
	uint32_t shard;
	uid_t uid;
	uint8_t imm_version, path; /* enum mpib_path */
	uint8_t spread; /* enum mpib_spread */
	uint32_t spread_above[MPIB_RAILS]; /* bytes, UINT32_MAX: never */
	uint64_t late; /* numbered fragments that were dropped */
	bool broken;
	char peer[MPIB_LABEL_MAX];
	uint32_t qps[MPIB_RAILS], conns;
	uint64_t messages; /* of its connections, past ones too */
	struct mpib_rail_counts n[MPIB_RAILS];
	struct mpib_snap_track track[MPIB_RAILS];
};

struct mpib_snap_conn {
	uint32_t client, index, shard;
	uint32_t lane; /* its place in the snapshot */
	bool sender, broken;
	char peer[MPIB_LABEL_MAX];
	int32_t local_rank, remote_rank; /* from tags, -1 unknown */
	uint32_t outstanding; /* requests */
	uint64_t messages;
	uint64_t stalls[MPIB_STALLS], stall_ns[MPIB_STALLS];
	uint64_t oldest_ns; /* age of the oldest request, 0: none */
	struct mpib_rail_counts n[MPIB_RAILS];
	struct mpib_split_why why;
	uint32_t weight; /* among those of its client */
	uint64_t rate; /* bytes a second, 0: no limit */
};

/* What a client's closed connections moved. */
struct mpib_snap_client {
	uint32_t id;
	uint64_t held; /* rounds in which its limit or its user's was reached */
	uint64_t closed_messages;
	struct mpib_rail_counts closed[MPIB_RAILS];
};

/* The last that happened to a request, or what it waits for. */
enum mpib_last {
	MPIB_LAST_QUEUED, /* behind others of its connection */
	MPIB_LAST_NO_CTS, /* send: the peer posted no receive for it */
	MPIB_LAST_NO_SLOT, /* send: too many send ops are in flight */
	MPIB_LAST_NO_SQ, /* send: the send queue is full */
	MPIB_LAST_NO_WINDOW, /* send: the lane has enough in flight */
	MPIB_LAST_NO_SHARE, /* send: it is another's turn on the rail */
	MPIB_LAST_LIMITED, /* send: its limit, or its client's or user's */
	MPIB_LAST_NO_GROUP, /* send: others of its group are missing */
	MPIB_LAST_UNACKED, /* send: posted, rails did not answer */
	MPIB_LAST_UNDELIVERED, /* send: they did, the peer did not */
	MPIB_LAST_NO_DATA, /* its client gave only a part of it yet */
	MPIB_LAST_CTS_UNSENT, /* receive: the send queue is full */
	MPIB_LAST_NO_SENDER, /* receive: announced, nothing came */
	MPIB_LAST_NO_IMM, /* receive: some rails are still to end it */
	MPIB_LAST_ARRIVED, /* receive: whole, but not one before it */
	MPIB_LASTS,
};

/* What never changes its meaning, and what people read. */
const char *mpib_last_word(enum mpib_last last);
const char *mpib_last_text(enum mpib_last last);

#define MPIB_SNAP_REQUESTS 4096u

struct mpib_snap_request {
	uint32_t conn; /* its place in the snapshot */
	enum mpib_last last;
	uint8_t rails; /* that it waits for, as far as is known */
	uint64_t age_ns;
	uint32_t bytes, done; /* of the request as posted */
};

struct mpib_snapshot {
	struct mpib_snap_rail rail[MPIB_RAILS]; /* all shards */
	struct mpib_snap_shard shard[MPIB_SHARDS_MAX];
	uint32_t rails, shards, lanes, conns, clients;
	struct mpib_snap_lane *lane;
	struct mpib_snap_conn *conn;
	struct mpib_snap_client *client;
	/* Only when asked for: at most MPIB_SNAP_REQUESTS, and how many more
	 * there were. */
	uint32_t requests, more_requests;
	struct mpib_snap_request *request;
};

/*
 * Control thread. fn gets the snapshot on the control thread and owns it
 * (mpib_snapshot_free()); NULL when memory was short. Shards are not stopped:
 * each copies its counters in one turn.
 */
typedef void mpib_snapshot_fn(void *arg, struct mpib_snapshot *snap);
int mpib_engine_snapshot(struct mpib_engine *engine, mpib_snapshot_fn *fn,
			 void *arg);
/* The same with all requests that are at least so old. */
int mpib_engine_snapshot_requests(struct mpib_engine *engine, uint64_t older_ns,
				  mpib_snapshot_fn *fn, void *arg);
void mpib_snapshot_free(struct mpib_snapshot *snap);

/* For tools: the peer that the lane and its connections lead to. Control thread,
 * before mpib_lane_connect(). */
void mpib_lane_set_label(struct mpib_lane *lane, const char *peer);

#endif
