/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a seed: topology, settings, work and faults. All of it is drawn
 * before anything runs, so that a failing plan can be made smaller and run
 * again.
 */
#ifndef SIM_PLAN_H
#define SIM_PLAN_H

#include "sim_world.h"

#define SIM_ARGS 80
#define SIM_ARG 48
#define SIM_PLAN_NODES 8
#define SIM_RANKS 8
#define SIM_LINES 16
#define SIM_FAULTS 24
#define SIM_GROUP 8
#define SIM_WINDOW 32 /* outstanding messages of an end */

/* Seeds below one of these numbers keep the plans that they had when the number
 * was set, so that a seed that found a bug still finds it. Fresh seeds, 1000
 * per second of real time, are above all of them. */
#define SIM_NEW_FROM 1795443800000
#define SIM_NEWEST_FROM 1795468500000
#define SIM_LATEST_FROM 1795640000000
#define SIM_REHEARSED_FROM 1795662800000
#define SIM_PATIENT_FROM 1795676400000
#define SIM_MODES_FROM 1795790000000
#define SIM_FAR_FROM 1795800000000
#define SIM_WRAPS_FROM 1795890000000 /* sim_first.c */
#define SIM_SMALL_FROM 1795895000000
#define SIM_STARVED_FROM 1795899000000
#define SIM_RELINK_FROM 1795900000000
#define SIM_TAGS_FROM 1795902000000
/* From this number on a seed has all draws; in the ranges before only one of
 * these draws is made. */
#define SIM_ALL_FROM 1795950000000
#define SIM_RESUMED_FROM 1795952000000
#define SIM_STAGED_FROM 1796000140000 /* sim_plan_draw() */

enum sim_fault_kind {
	/* No application sees an error if a plan has only these faults. */
	SIM_FAULT_DOWN, /* a port */
	SIM_FAULT_HOLE,
	SIM_FAULT_QP, /* one goes to ERR */
	SIM_FAULT_LAG, /* messages of a device take longer */
	SIM_FAULT_SLOW, /* the peer links are slow */
	SIM_FAULT_STOP_RANK, /* SIGSTOP, and SIGCONT later */
	SIM_FAULT_STOP_PROXY,
	SIM_FAULT_DEVICE, /* device lost; the next proxy may open it again */
	SIM_FAULT_FORGETS, /* the same; acknowledged writes are forgotten */
	SIM_FAULT_FLAP, /* a port goes down and up repeatedly */
	SIM_FAULT_QP_LAG, /* a QP stands still and others overtake it */
	SIM_FAULT_CLOCK, /* the time of day jumps */
	SIM_FAULT_RESET, /* the peer link between two nodes is reset */
	/* These are added by sim_plan_more.c. */
	SIM_FAULT_OPERATOR, /* drains, changes a setting */
	SIM_FAULT_TOOLS, /* tools send the proxy each command they know */
	SIM_FAULT_STRANGER, /* not a peer, but connects to the proxy */
	SIM_FAULT_HANG, /* a device's firmware answers no call for a while */
	SIM_FAULT_NETWORK, /* a port is lost, and the peer links on it */
	SIM_FAULT_LIAR, /* sends peer messages, but is no peer: sim_liar.c */
	SIM_FAULT_STARVE, /* a node's proxies hardly get a core */
	/* With these faults connections may fail, with an error at both
	 * ends. */
	SIM_FAULT_KILL_PROXY,
	SIM_FAULT_KILL_RANK,
	SIM_FAULT_CUT, /* no data passes on a peer link */
	SIM_FAULT_BOTH_DOWN, /* both ports of a node */
	SIM_FAULT_HALF, /* one direction of a peer link loses all data */
	SIM_FAULT_SHORT, /* a node's proxies get no descriptors or regions */
	SIM_FAULT_TERM, /* SIGTERM to a node's proxies */
	SIM_FAULT_KINDS,
};

struct sim_fault {
	enum sim_fault_kind kind;
	uint64_t at, lasts; /* ns, from the start of the traffic */
	unsigned node, other, rail;
	bool off; /* left out, to make the plan smaller */
};

/* A connection between two ranks. */
struct sim_line_plan {
	unsigned from, to; /* ranks */
	unsigned messages, window, group;
	unsigned ahead; /* messages whose sends the sender posts together */
	unsigned families; /* families of tags; a message uses one family */
	unsigned extra; /* receives that no send matches */
	unsigned lives; /* connections, one after the other */
	bool eager; /* it posts all sends of a tag before the next tag */
	bool watched; /* report functions are called as by a profiler */
	uint32_t room; /* bytes of a buffer */
	uint64_t span; /* ns over which its messages are posted */
	bool rx_spans; /* so does the receiver */
	bool tx_direct, rx_direct; /* memory that needs no copy */
	bool tx_gpu, rx_gpu; /* a GPU's memory, which needs no copy */
};

struct sim_plan {
	uint64_t seed;
	unsigned nodes, ranks, lines, faults, rails, shards;
	bool hard; /* errors are allowed */
	bool churn; /* ranks register and deregister memory all the time */
	bool key; /* the peer links are sealed */
	const char *odd; /* a setting of node 0 only; NULL: none */
	bool quotas; /* small quotas: a request may be refused every time */
	uint64_t late; /* ns at most between a listen and its accept */
	uint64_t starts; /* ns at most between the starts of two ranks */
	/* ns at most between a device's loss and its event */
	uint64_t told_late;
	unsigned calls; /* calls that a dying device answers, at most */
	bool gpus; /* lines may have GPU memory */
	bool orders; /* operators also play faults and disconnect clients */
	bool rehearses; /* played faults act on the devices, not only on QPs */
	unsigned agents; /* bit mask of nodes whose agent sends reports */
	bool memory; /* processes short of descriptors are short of memory */
	unsigned crowd; /* strangers at the same time, competing for places */
	unsigned listens; /* ms that one of them stays, at most */
	bool mistakes; /* a starting proxy has a wrong setting */
	bool shares; /* operators give connections their own shares */
	uint64_t far; /* extra ns of latency of the peer links */
	bool resumes; /* ranks outlive their proxies */
	bool soft; /* devices move only while their process runs */
	uint32_t message; /* smallest max_msg_sz of a device; 0: no limit */
	unsigned rank_node[SIM_RANKS], rank_uid[SIM_RANKS];
	struct sim_line_plan line[SIM_LINES];
	struct sim_fault fault[SIM_FAULTS];
	char arg[SIM_ARGS][SIM_ARG];
	unsigned args;
	uint64_t step_most, leap_most, leap_far; /* see struct sim_pace */
	/* After this number of polls without result a rank doubles its pause
	 * before the next poll, up to ns. */
	unsigned looks;
	uint64_t look_most;
	unsigned preempt;
};

/* Changes of a plan after it was drawn. */
struct sim_smaller {
	uint32_t faults_off; /* a bit each */
	uint32_t lines_off;
	unsigned halvings; /* of the messages */
	bool calm; /* no preemption */
};

void sim_plan_draw(struct sim_plan *plan, uint64_t seed, unsigned messages);
/* Later additions to the plans. Each draws from its own stream, so that earlier
 * draws do not change: sim_plan_more.c. */
void sim_plan_draw_more(struct sim_plan *plan);
void sim_plan_draw_newest(struct sim_plan *plan); /* sim_plan_newest.c */
/* Return a new fault; NULL: the plan is full. */
struct sim_fault *sim_plan_fault(struct sim_plan *plan, struct sim_rng *r,
				 enum sim_fault_kind kind, uint64_t at);
void sim_plan_arg(struct sim_plan *plan, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void sim_plan_shrink(struct sim_plan *plan, const struct sim_smaller *s);
bool sim_plan_has(const struct sim_plan *plan, enum sim_fault_kind kind);
void sim_plan_print(const struct sim_plan *plan);
const char *sim_fault_name(enum sim_fault_kind kind);

#endif
