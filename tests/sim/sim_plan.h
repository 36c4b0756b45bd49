/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a seed stands for: topology, settings, work and faults. All of it is
 * drawn before anything runs, so that a failing plan can be made smaller and
 * run again.
 */
#ifndef SIM_PLAN_H
#define SIM_PLAN_H

#include "sim_world.h"

#define SIM_ARGS 64
#define SIM_ARG 48
#define SIM_PLAN_NODES 4
#define SIM_RANKS 8
#define SIM_LINES 16
#define SIM_FAULTS 24
#define SIM_GROUP 8

enum sim_fault_kind {
	/* A run with these alone shows no error to anybody. */
	SIM_FAULT_DOWN, /* a port */
	SIM_FAULT_HOLE,
	SIM_FAULT_QP, /* one goes to ERR */
	SIM_FAULT_LAG, /* messages of a device take longer */
	SIM_FAULT_SLOW, /* the peer links are slow */
	SIM_FAULT_STOP_RANK, /* SIGSTOP, and SIGCONT later */
	SIM_FAULT_STOP_PROXY,
	SIM_FAULT_UPGRADE,
	SIM_FAULT_UPGRADE_BOTH, /* two nodes at once */
	SIM_FAULT_DEVICE, /* gone, and back later */
	SIM_FAULT_SOFT, /* how many these are */
	/* With these connections may fail, with an error at both ends. */
	SIM_FAULT_KILL_PROXY = SIM_FAULT_SOFT,
	SIM_FAULT_KILL_RANK,
	SIM_FAULT_RESET, /* the peer link between two nodes */
	SIM_FAULT_CUT, /* nothing passes on it */
	SIM_FAULT_BOTH_DOWN, /* both ports of a node */
	SIM_FAULT_KILL_NEXT, /* the proxy that takes over, in the middle */
	SIM_FAULT_KINDS,
};

struct sim_fault {
	enum sim_fault_kind kind;
	uint64_t at, lasts; /* ns, after the traffic began */
	unsigned node, other, rail;
	bool off; /* left out, to make the plan smaller */
};

/* A connection between two ranks. */
struct sim_line_plan {
	unsigned from, to; /* ranks */
	unsigned messages, window, group;
	uint32_t room; /* bytes of a buffer */
	bool tx_direct, rx_direct; /* memory that needs no copy */
};

struct sim_plan {
	uint64_t seed;
	unsigned nodes, ranks, lines, faults, rails, shards;
	bool hard; /* errors are allowed */
	unsigned rank_node[SIM_RANKS], rank_uid[SIM_RANKS];
	struct sim_line_plan line[SIM_LINES];
	struct sim_fault fault[SIM_FAULTS];
	char arg[SIM_ARGS][SIM_ARG];
	unsigned args;
	uint64_t step_most;
	unsigned preempt;
};

/* How a plan is changed after it was drawn. */
struct sim_smaller {
	uint32_t faults_off; /* a bit each */
	uint32_t lines_off;
	unsigned halvings; /* of the messages */
	bool calm; /* no preemption */
};

void sim_plan_draw(struct sim_plan *plan, uint64_t seed, unsigned messages);
void sim_plan_shrink(struct sim_plan *plan, const struct sim_smaller *s);
void sim_plan_print(const struct sim_plan *plan);
const char *sim_fault_name(enum sim_fault_kind kind);

#endif
