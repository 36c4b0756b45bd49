/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two rails and what is sent over them, in time that a test counts, to try
 * engine/split/adapt.h against. A rail is a queue, or several that it serves by
 * turns, a rate and a delay. All rails
 * of the node may share a processor that feeds them by turns, and that may be
 * the limit. Rates wander, rails and the processor stand still now and then, and
 * acknowledgements are seen only when somebody polls, all drawn from a seed.
 * Shards share the rails, and none knows what another has in flight. A connection
 * has some messages in flight and takes their ends in order, as a
 * send op's client does.
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
	uint32_t cost[MPIB_RAILS]; /* bytes that the processor could move
				      meanwhile, for the WR */
	uint64_t ack[MPIB_RAILS]; /* when it is acknowledged; 0: it is */
	uint64_t posted;
	uint32_t len;
	int64_t before; /* as mpib_adapt_posted() said */
	bool cut;
};

struct sim_conn {
	struct sim_message message[SIM_DEPTH];
	unsigned lane, depth, head, tail; /* free-running */
	uint32_t len; /* of its messages */
	uint64_t done; /* bytes that ended */
};

struct sim_rail {
	uint64_t rate; /* bytes per s */
	uint64_t delay; /* ns, there and back */
	uint64_t stands; /* until then, ns */
	uint64_t credit; /* bytes << 10 */
	struct mpib_track_sum bytes[SIM_SHARDS];
	uint64_t sent;
	struct sim_message *queue[SIM_QUEUE];
	unsigned head, tail, turn;
};

struct rails_sim {
	uint64_t seed, now;
	struct sim_rail rail[MPIB_RAILS];
	uint64_t processor; /* bytes per s; 0: no limit */
	uint32_t wr_cost; /* of a WR, in bytes of the processor's */
	unsigned noise; /* percent that a rate wanders */
	uint64_t stands, every; /* a rail stands still so long, so often */
	uint64_t poll; /* acknowledgements are seen so often, at most */
	uint64_t polls_at;
	unsigned turn;
	unsigned qps; /* of a rail, which it serves by turns; 0: one */
	uint32_t share; /* SIM_ADAPTIVE, or static */
	unsigned conns, lanes;
	unsigned shards; /* which have the lanes by turns; 0: one */
	struct sim_conn conn[SIM_CONNS];
	struct mpib_adapt adapt[SIM_CONNS]; /* by lane */
	struct mpib_tracker track[SIM_CONNS][MPIB_RAILS];
	uint64_t done, messages, stripes, slowest; /* bytes ended, ...; ns */
	uint64_t took; /* ns of the message that ended last */
};

/* Rails of so many bytes per s, one lane, nothing else: no connection yet. */
void sim_start(struct rails_sim *s, uint64_t seed, uint64_t sout, uint64_t sup);
/* Add a connection on a lane, of the lanes that are there or the next one. */
void sim_add(struct rails_sim *s, unsigned lane, unsigned depth, uint32_t len);
/* Go on for so long; returns the bytes per s that ended. */
uint64_t sim_run(struct rails_sim *s, uint64_t ns);
/* SUP's part of what ends while it goes on for so long, of 1000. */
unsigned sim_part(struct rails_sim *s, uint64_t ns);
/* From 0 to n - 1. */
uint64_t sim_draw(struct rails_sim *s, uint64_t n);

#endif
