/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two rails and their messages in simulated time, to test engine/split/adapt.h.
 * A rail has a rate, a delay, and one or several queues that it serves in turn.
 * Both rails may share a processor, which passes bytes to them in turn and may
 * be the bottleneck. The rates vary, and the rails stall sometimes, at random
 * times that depend on a seed. A shard sees acknowledgements only when it
 * polls. Shards share the rails, but no shard knows what other shards have in
 * flight. A connection has several messages in flight and completes them in
 * order, as in the engine.
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
	/* bytes that each rail has not carried yet */
	uint32_t left[MPIB_RAILS];
	/* part of `wr_cost` that each rail still has to spend */
	uint32_t cost[MPIB_RAILS];
	/* time of each rail's ack; 0: no ack, or the shard has already seen the
	 * ack */
	uint64_t ack[MPIB_RAILS];
	uint64_t posted;
	uint32_t len;
	int64_t before; /* result of mpib_adapt_posted() */
	bool cut;
};

struct sim_conn {
	struct sim_message message[SIM_DEPTH];
	/* `head` and `tail` are not reduced modulo SIM_DEPTH */
	unsigned lane, depth, head, tail;
	uint32_t len; /* length of the connection's messages */
	uint64_t done; /* bytes completed */
};

struct sim_rail {
	uint64_t rate; /* bytes per s */
	uint64_t delay; /* delay from the last byte to the ack, in ns */
	uint64_t stands; /* end of the stall, in ns */
	uint64_t credit; /* bytes that the rail may carry, times 1024 */
	struct mpib_track_sum bytes[SIM_SHARDS];
	uint64_t sent;
	struct sim_message *queue[SIM_QUEUE];
	unsigned head, tail, turn;
};

struct rails_sim {
	uint64_t seed, now;
	struct sim_rail rail[MPIB_RAILS];
	uint64_t processor; /* bytes per s; 0: no limit */
	/* cost of a WR, in bytes that the processor could move in the same
	 * time */
	uint32_t wr_cost;
	unsigned noise; /* variation of the rates, in percent */
	/* length and mean interval of a rail's stalls, in ns */
	uint64_t stands, every;
	uint64_t poll; /* interval between polls, in ns */
	uint64_t polls_at;
	unsigned turn;
	unsigned qps; /* QPs of a rail, served in turn; 0: one */
	uint32_t share; /* SUP's static share, or SIM_ADAPTIVE */
	unsigned conns, lanes;
	/* number of shards; lanes are divided between them; 0: one */
	unsigned shards;
	struct sim_conn conn[SIM_CONNS];
	/* state of the split of each lane */
	struct mpib_adapt adapt[SIM_CONNS];
	struct mpib_tracker track[SIM_CONNS][MPIB_RAILS];
	/* completed bytes and messages, posted stripes, longest latency */
	uint64_t done, messages, stripes, slowest;
	uint64_t took; /* latency of the last completed message, ns */
};

/* Start with rails of these rates in bytes per s, and no connection. */
void sim_start(struct rails_sim *s, uint64_t seed, uint64_t sout, uint64_t sup);
/* Add a connection with `depth` messages of `len` bytes in flight on an
 * existing lane, or on a new lane with the next number. */
void sim_add(struct rails_sim *s, unsigned lane, unsigned depth, uint32_t len);
/* Run for `ns` nanoseconds. Return the completed bytes per s. */
uint64_t sim_run(struct rails_sim *s, uint64_t ns);
/* Run for `ns` nanoseconds. Return SUP's part of the bytes, in thousandths. */
unsigned sim_part(struct rails_sim *s, uint64_t ns);
/* Return a random number from 0 to n - 1. */
uint64_t sim_draw(struct rails_sim *s, uint64_t n);

#endif
