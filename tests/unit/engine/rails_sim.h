/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two rails and their messages in simulated time, to test engine/split/adapt.h.
 * A rail has a rate, a delay, and one queue or several that it serves in turn.
 * All rails of the node may share a processor. It passes bytes to them in turn
 * and may be the bottleneck. Rates vary, and the rails and the processor stall
 * sometimes. Acknowledgements are seen only when a shard polls. All of this is
 * drawn from a seed. Shards share the rails, but a shard does not know what
 * other shards have in flight. A connection has several messages in flight and
 * completes them in order, as the code that posts send ops does.
 */
#ifndef MPIB_TESTS_RAILS_SIM_H
#define MPIB_TESTS_RAILS_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/split/adapt.h"

#define SIM_US 1000ull
#define SIM_MS 1000000ull
#define SIM_SEC 1000000000ull
#define SIM_CONNS 16
#define SIM_DEPTH 32
#define SIM_SHARDS 2
#define SIM_QUEUE (SIM_CONNS * SIM_DEPTH)
#define SIM_ADAPTIVE UINT32_MAX

struct sim_message {
	struct mpib_stripe stripe[MPIB_RAILS];
	uint32_t left[MPIB_RAILS]; /* bytes that the rail has not carried */
	/* bytes that the processor could have moved instead */
	uint32_t cost[MPIB_RAILS];
	/* time of the acknowledgement, or 0 once it was seen */
	uint64_t ack[MPIB_RAILS];
	uint64_t posted;
	uint32_t len;
	int64_t before; /* result of mpib_adapt_posted() */
	bool cut;
};

struct sim_conn {
	struct sim_message message[SIM_DEPTH];
	unsigned lane, depth, head, tail; /* head and tail are free-running */
	uint32_t len; /* length of the connection's messages */
	uint64_t done; /* bytes completed */
};

struct sim_rail {
	uint64_t rate; /* bytes per s */
	uint64_t delay; /* ns, both ways */
	uint64_t stands; /* end of the stall, in ns */
	uint64_t credit; /* bytes << 10 */
	struct mpib_track_sum bytes[SIM_SHARDS];
	uint64_t sent;
	struct sim_message *queue[SIM_QUEUE];
	unsigned head, tail, turn;
};

struct rails_sim {
	uint64_t seed, now;
	struct sim_rail rail[MPIB_RAILS];
	uint64_t processor; /* bytes per s; 0 means no limit */
	uint32_t wr_cost; /* cost of a WR, in bytes of the processor */
	unsigned noise; /* variation of a rate, percent */
	/* length and interval of a rail's stalls, in ns */
	uint64_t stands, every;
	uint64_t poll; /* shortest interval between polls, in ns */
	uint64_t polls_at;
	unsigned turn;
	unsigned qps; /* queues of a rail, served in turn; 0 means 1 */
	uint32_t share; /* SIM_ADAPTIVE, or SUP's static share */
	unsigned conns, lanes;
	/* number of shards, which get the lanes in turn; 0 means 1 */
	unsigned shards;
	struct sim_conn conn[SIM_CONNS];
	struct mpib_adapt adapt[SIM_CONNS]; /* state of the split, by lane */
	struct mpib_tracker track[SIM_CONNS][MPIB_RAILS];
	/* totals of what completed, and the longest latency */
	uint64_t done, messages, stripes, slowest;
	uint64_t took; /* latency of the last completed message, ns */
};

/* Start with rails of these rates in bytes per s, one lane, no other limits and
 * no connection. */
void sim_start(struct rails_sim *s, uint64_t seed, uint64_t sout, uint64_t sup);
/* Add a connection on a lane, which exists already or is the next new one. */
void sim_add(struct rails_sim *s, unsigned lane, unsigned depth, uint32_t len);
/* Run for this time. Return the bytes completed per s. */
uint64_t sim_run(struct rails_sim *s, uint64_t ns);
/* Run for this time. Return SUP's part of the completed bytes, in
 * thousandths. */
unsigned sim_part(struct rails_sim *s, uint64_t ns);
/* Return a number from 0 to n - 1. */
uint64_t sim_draw(struct rails_sim *s, uint64_t n);

#endif
