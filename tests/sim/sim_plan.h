/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a seed: topology, settings, messages and faults. The whole plan
 * is drawn before anything runs, so parts of a failing plan can be removed
 * before the next run.
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
#define SIM_WINDOW 32 /* maximum number of outstanding messages of an end */

/* Kinds of faults and settings were added to the plans over time. Each of these
 * numbers is the first seed with one of these additions. Lower seeds keep their
 * old plans, so that a seed that found a bug still finds this bug. A fresh seed
 * is the current Unix time in milliseconds, which is higher than all of these
 * numbers. */
#define SIM_NEW_FROM 1795443800000
#define SIM_NEWEST_FROM 1795468500000
#define SIM_LATEST_FROM 1795640000000
#define SIM_DISTURBED_FROM 1795662800000
#define SIM_PATIENT_FROM 1795676400000
#define SIM_MODES_FROM 1795790000000
#define SIM_FAR_FROM 1795800000000
#define SIM_WRAPS_FROM 1795890000000 /* see sim_first.c */
#define SIM_SMALL_FROM 1795895000000
#define SIM_STARVED_FROM 1795899000000
#define SIM_RELINK_FROM 1795900000000
#define SIM_TAGS_FROM 1795902000000
/* The plans of seeds from this number on include all additions. Below this
 * number, some additions apply only to a range of seeds. */
#define SIM_ALL_FROM 1795950000000
#define SIM_RESUMED_FROM 1795952000000
#define SIM_STAGED_FROM 1796000140000 /* see sim_plan_draw() */

enum sim_fault_kind {
	/* In a plan with only the following faults, no application gets an
	 * error. */
	SIM_FAULT_DOWN, /* a port goes down */
	SIM_FAULT_HOLE,
	SIM_FAULT_QP, /* a QP goes to ERR */
	SIM_FAULT_LAG, /* the messages of a device take longer */
	SIM_FAULT_SLOW, /* the peer links are slow */
	SIM_FAULT_STOP_RANK, /* a rank gets SIGSTOP, and SIGCONT later */
	SIM_FAULT_STOP_PROXY,
	/* a device is lost until the next proxy opens it */
	SIM_FAULT_DEVICE,
	/* a device is lost, together with writes that it had acknowledged */
	SIM_FAULT_FORGETS,
	SIM_FAULT_FLAP, /* a port goes down and up repeatedly */
	SIM_FAULT_QP_LAG, /* a QP stalls, and other QPs overtake it */
	SIM_FAULT_CLOCK, /* the time of day jumps */
	SIM_FAULT_RESET, /* the peer link between two nodes is reset */
	/* sim_plan_more.c adds these. */
	SIM_FAULT_OPERATOR, /* an operator drains rails or changes a setting */
	SIM_FAULT_TOOLS, /* a tool sends commands to the stats socket */
	/* a program that is not a peer connects to the peer port */
	SIM_FAULT_STRANGER,
	SIM_FAULT_HANG, /* a device's firmware answers no call for a while */
	/* a port goes down, and the peer links over this port stop */
	SIM_FAULT_NETWORK,
	/* a liar sends peer messages, see sim_liar.c */
	SIM_FAULT_LIAR,
	SIM_FAULT_STARVE, /* a node's proxies hardly get CPU time */
	/* With the following faults, connections can fail with an error at both
	 * ends. */
	SIM_FAULT_KILL_PROXY,
	SIM_FAULT_KILL_RANK,
	SIM_FAULT_CUT, /* no data passes on a peer link */
	SIM_FAULT_BOTH_DOWN, /* both ports of a node go down */
	SIM_FAULT_HALF, /* one direction of a peer link loses all data */
	/* a node's proxies are short of descriptors and regions */
	SIM_FAULT_SHORT,
	SIM_FAULT_TERM, /* a node's proxies get SIGTERM */
	SIM_FAULT_KINDS,
};

struct sim_fault {
	enum sim_fault_kind kind;
	/* ns; `at` is relative to the start of the messages */
	uint64_t at, lasts;
	unsigned node, other, rail;
	bool off; /* --minimise leaves the fault out */
};

/* A connection between two ranks. */
struct sim_line_plan {
	unsigned from, to; /* numbers of the ranks */
	unsigned messages, window, group;
	/* maximum number of messages with outstanding sends */
	unsigned ahead;
	/* number of sets of tags; each message uses one set */
	unsigned families;
	unsigned extra; /* number of receives without a send */
	unsigned lives; /* number of connections, one after the other */
	/* the sender first posts as many sends of one tag as possible, then
	 * those of the next tag */
	bool eager;
	/* the ranks call the report functions for their requests, as a profiler
	 * would */
	bool watched;
	uint32_t room; /* size of a buffer in bytes */
	uint64_t span; /* the sender spreads its posts over `span` ns */
	bool rx_spans; /* the receiver spreads its posts over `span` ns, too */
	/* `tx_direct`: the sender's memory needs no copy. `rx_direct`: the
	 * receiver's memory needs no copy. */
	bool tx_direct, rx_direct;
	/* `tx_gpu`: the sender uses GPU memory. `rx_gpu`: the receiver uses GPU
	 * memory. GPU memory needs no copy. */
	bool tx_gpu, rx_gpu;
};

struct sim_plan {
	uint64_t seed;
	unsigned nodes, ranks, lines, faults, rails, shards;
	bool hard; /* errors are allowed */
	bool churn; /* ranks register and deregister memory all the time */
	bool key; /* the peer links are encrypted */
	const char *odd; /* a setting that only node 0 has, or NULL */
	/* quotas are so small that they can refuse a request forever */
	bool quotas;
	uint64_t late; /* maximum ns between a listen and its accept */
	uint64_t starts; /* maximum ns between the starts of two ranks */
	/* maximum ns between the loss of a device and the event that reports
	 * this loss */
	uint64_t told_late;
	/* maximum number of calls that a failing device still answers */
	unsigned calls;
	bool gpus; /* the ends of lines can have GPU memory */
	bool orders; /* operators can kill QPs and disconnect clients */
	bool disturbs; /* operators disturb the device of a drained rail */
	unsigned agents; /* mask of the nodes with agents, see sim_agent.c */
	/* processes that are short of descriptors are short of memory, too */
	bool memory;
	/* number of strangers that connect at the same time */
	unsigned crowd;
	unsigned listens; /* maximum ms that a stranger stays connected */
	/* operators sometimes start proxies with a wrong setting */
	bool mistakes;
	bool shares; /* operators also limit the rate of clients */
	uint64_t far; /* extra latency of the peer links in ns */
	bool resumes; /* ranks outlive their proxies */
	bool soft; /* devices make progress only while their process runs */
	/* smallest max_msg_sz of a device; 0 means no limit */
	uint32_t message;
	unsigned rank_node[SIM_RANKS], rank_uid[SIM_RANKS];
	struct sim_line_plan line[SIM_LINES];
	struct sim_fault fault[SIM_FAULTS];
	char arg[SIM_ARGS][SIM_ARG];
	unsigned args;
	uint64_t step_most, leap_most, leap_far; /* see struct sim_pace */
	/* A rank pauses between two polls. After each series of `looks` polls
	 * without a result, the maximum pause doubles, up to `look_most` ns. */
	unsigned looks;
	uint64_t look_most;
	unsigned preempt;
};

/* Changes that make a drawn plan smaller. */
struct sim_smaller {
	uint32_t faults_off; /* one bit for each fault that is left out */
	uint32_t lines_off;
	/* the number of messages is halved this many times */
	unsigned halvings;
	bool calm; /* no preemption */
};

void sim_plan_draw(struct sim_plan *plan, uint64_t seed, unsigned messages);
/* sim_plan_more.c: make the draws that were added later. Each addition has its
 * own random stream, so the earlier draws stay the same. */
void sim_plan_draw_more(struct sim_plan *plan);
void sim_plan_draw_newest(struct sim_plan *plan); /* sim_plan_newest.c */
/* Return a new fault, or NULL if the plan is full. */
struct sim_fault *sim_plan_fault(struct sim_plan *plan, struct sim_rng *r,
				 enum sim_fault_kind kind, uint64_t at);
void sim_plan_arg(struct sim_plan *plan, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void sim_plan_shrink(struct sim_plan *plan, const struct sim_smaller *s);
bool sim_plan_has(const struct sim_plan *plan, enum sim_fault_kind kind);
void sim_plan_print(const struct sim_plan *plan);
const char *sim_fault_name(enum sim_fault_kind kind);

#endif
