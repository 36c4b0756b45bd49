/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of the whole engine, taken by each shard between two turns, so that
 * within a shard bytes by rail equal bytes by flow. Counters only grow; what
 * closed flows and clients moved stays in the rails' and lanes' sums.
 */
#ifndef MPIB_ENGINE_SNAPSHOT_H
#define MPIB_ENGINE_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/engine.h"
#include "engine/policy.h"

#define MPIB_LABEL_MAX 64

/* Payload and work of one rail, whoever counts it. */
struct mpib_rail_counts {
	uint64_t tx_bytes, rx_bytes; /* payload; CTS and records not counted */
	uint64_t tx_wrs; /* all send WRs posted, CTS and records too */
	uint64_t rx_imms; /* receive completions */
	uint64_t cts; /* CTS writes posted */
};

static inline void mpib_rail_counts_add(struct mpib_rail_counts *sum,
					const struct mpib_rail_counts *n)
{
	sum->tx_bytes += n->tx_bytes;
	sum->rx_bytes += n->rx_bytes;
	sum->tx_wrs += n->tx_wrs;
	sum->rx_imms += n->rx_imms;
	sum->cts += n->cts;
}

static inline void mpib_rail_counts_sub(struct mpib_rail_counts *sum,
					const struct mpib_rail_counts *n)
{
	sum->tx_bytes -= n->tx_bytes;
	sum->rx_bytes -= n->rx_bytes;
	sum->tx_wrs -= n->tx_wrs;
	sum->rx_imms -= n->rx_imms;
	sum->cts -= n->cts;
}

struct mpib_snap_rail {
	struct mpib_rail_counts n;
	uint64_t cqes, cqe_errors, posts, srq_refills, stale_imms, bad_imms;
	uint64_t srq_limits; /* times the device found an SRQ nearly empty */
	uint64_t downs; /* times the rail was told to be down */
	uint32_t srq_posted, qps;
	bool up, drained;
};

struct mpib_snap_shard {
	uint64_t turns, busy_turns, sleeps;
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
	bool broken;
	char peer[MPIB_LABEL_MAX];
	uint32_t qps[MPIB_RAILS], flows;
	struct mpib_rail_counts n[MPIB_RAILS];
	struct mpib_snap_track track[MPIB_RAILS];
};

struct mpib_snap_flow {
	uint32_t client, index, shard;
	uint32_t lane; /* its place in the snapshot */
	bool sender, broken;
	char peer[MPIB_LABEL_MAX];
	int32_t local_rank, remote_rank; /* from tags, -1 unknown */
	uint32_t outstanding; /* requests */
	uint64_t messages, stalls_cts, stalls_slot, stalls_sq;
	struct mpib_rail_counts n[MPIB_RAILS];
	struct mpib_split_why why;
};

/* What a client's closed connections moved. */
struct mpib_snap_client {
	uint32_t id;
	struct mpib_rail_counts closed[MPIB_RAILS];
};

struct mpib_snapshot {
	struct mpib_snap_rail rail[MPIB_RAILS]; /* all shards */
	struct mpib_snap_shard shard[MPIB_SHARDS_MAX];
	uint32_t rails, shards, lanes, flows, clients;
	struct mpib_snap_lane *lane;
	struct mpib_snap_flow *flow;
	struct mpib_snap_client *client;
};

/*
 * Control thread. fn gets the snapshot on the control thread and owns it
 * (mpib_snapshot_free()); NULL when memory was short. Shards are not stopped:
 * each copies its counters in one turn.
 */
typedef void mpib_snapshot_fn(void *arg, struct mpib_snapshot *snap);
int mpib_engine_snapshot(struct mpib_engine *engine, mpib_snapshot_fn *fn,
			 void *arg);
void mpib_snapshot_free(struct mpib_snapshot *snap);

/* For tools: the peer that the lane and its flows lead to. Control thread,
 * before mpib_lane_connect(). */
void mpib_lane_set_label(struct mpib_lane *lane, const char *peer);

#endif
