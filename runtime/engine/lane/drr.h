/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DRR classes decide the order of posting. They form a tree: tenants, the
 * clients of each tenant, and the connections of each client (the leaves). Each
 * level is served by deficit round robin. At its turn, a class gets a quantum
 * of credit in proportion to its weight, and pays for the bytes that it posts.
 * While a class has no credit, its siblings are served. A class without active
 * siblings needs no credit.
 *
 * A limit is a token bucket that is filled over time. A class without tokens is
 * skipped, even if it has credit.
 *
 * If no leaf of a class can post, because no clear-to-send has arrived, the
 * class keeps its place and its credit. The class gets its next quantum after
 * each sibling has had a quantum. When the clear-to-send arrives, the class is
 * served first.
 *
 * Visiting a leaf that waits for its clear-to-send takes time, and a tenant may
 * have very many such leaves. So a turn visits a limited number of such leaves,
 * and the next turns visit the others. If a leaf used up its credit in a round
 * but its tenant still has credit, the count of visits restarts at zero.
 *
 * A leaf returns MPIB_DRR_BLOCKED if its lane is full, and MPIB_DRR_WINDOW_FULL
 * if the rail is full. The leaf keeps its place and its credit, so it is the
 * first to use new room.
 *
 * Shard thread, except that the control thread may set weight and rate at any
 * time.
 */
#ifndef MPIB_ENGINE_DRR_H
#define MPIB_ENGINE_DRR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define MPIB_DRR_WEIGHT 10u /* the default */
#define MPIB_DRR_WEIGHT_MAX 100u
/* Bytes of credit per round and unit of weight. */
#define MPIB_DRR_QUANTUM (16 * 1024L)
/* Bytes of credit that a send op costs besides its payload. */
#define MPIB_DRR_OP 256
/* The longest burst: a bucket holds tokens for this time. */
#define MPIB_DRR_BURST_NS 10000000ull

TAILQ_HEAD(mpib_drr_list, mpib_drr_class);

struct mpib_drr_class {
	struct mpib_drr_class *parent; /* NULL: the root */
	struct mpib_drr_list active; /* children that have something to send */
	TAILQ_ENTRY(mpib_drr_class) link;
	_Atomic uint32_t weight; /* 1..MPIB_DRR_WEIGHT_MAX */
	_Atomic uint64_t rate; /* bytes a second, 0: no limit */
	uint32_t children; /* number of active children */
	/* number of children, active or idle, that are or contain a leaf added
	 * by mpib_drr_enter() */
	uint32_t members;
	/* root: number of leaves added by mpib_drr_enter() and not removed */
	uint32_t leaves;
	/* Root: number of the current sweep over all active leaves. Tenant:
	 * number of the last sweep that visited the tenant. */
	uint32_t sweep;
	/* Tenant: number of visits in its last sweep; UINT32_MAX: all leaves
	 * were visited. */
	uint32_t looked;
	/* root: some weight differs from MPIB_DRR_WEIGHT */
	_Atomic bool weighted;
	uint32_t grants; /* number of quanta granted to children */
	/* Value of the parent's `grants` at the class's last turn, or when the
	 * class became idle. */
	uint32_t left_at;
	int64_t credit; /* bytes; below 0: debt */
	bool on; /* on the parent's list of active children */
	bool granted; /* got the quantum of this round */
	bool alone; /* had no active sibling when last visited */
	bool owes; /* tenant: a class was in debt in this sweep */
	/* The bucket of the limit. */
	int64_t tokens; /* bytes << 20 */
	uint64_t filled_ns; /* when tokens were last added */
	uint64_t held; /* how often the class was skipped for lack of tokens */
};

/* Reasons why a run of a leaf ended. */
#define MPIB_DRR_NONE 0 /* the leaf cannot post: its turn has ended */
#define MPIB_DRR_RAN 1 /* the run's send ops or credit are used up */
/* The leaf's lane is full; the leaf keeps its turn. */
#define MPIB_DRR_BLOCKED (-1)
/* The rail is full for all leaves: this leaf keeps its turn, and no class
 * starts a new turn in this round. */
#define MPIB_DRR_WINDOW_FULL (-2)
#define MPIB_DRR_IDLE (-3) /* nothing is left to send */

/* Limits for one run of a leaf. After the run other leaves are served. */
struct mpib_drr_run {
	unsigned left; /* send ops */
	/* Must be above 0 before each send op, see mpib_drr_pay(). */
	int64_t credit;
};

/* Charge the run for a send op. False: the run must end with MPIB_DRR_RAN. */
static inline bool mpib_drr_pay(struct mpib_drr_run *run, uint64_t bytes)
{
	run->credit -= (int64_t)bytes + MPIB_DRR_OP;
	return --run->left > 0 && run->credit > 0;
}

/* Post send ops of the leaf. `run` allows at least one. Return an MPIB_DRR_*
 * value. */
typedef int mpib_drr_run_fn(struct mpib_drr_class *leaf,
			    struct mpib_drr_run *run);

/* Control thread, before the shard sees the class. `parent` is NULL for a
 * root. */
void mpib_drr_init(struct mpib_drr_class *n, struct mpib_drr_class *parent);
/* Any thread, any time. `weight` 0 means MPIB_DRR_WEIGHT. `rate` is in bytes
 * per second; 0: no limit. */
void mpib_drr_set(struct mpib_drr_class *n, uint32_t weight, uint64_t rate);

/* Return the limit in bytes per second; 0: none. Relaxed: mpib_drr_set()
 * publishes nothing else. */
static inline uint64_t mpib_drr_rate(const struct mpib_drr_class *n)
{
	return atomic_load_explicit(&n->rate, memory_order_relaxed);
}

/* Shard thread. Return the quantum of the class. Relaxed: mpib_drr_set()
 * publishes nothing else. */
static inline int64_t mpib_drr_quantum_of(const struct mpib_drr_class *n)
{
	return (int64_t)atomic_load_explicit(&n->weight, memory_order_relaxed) *
	       MPIB_DRR_QUANTUM;
}

/* Add a leaf whose connection has started. It is not active yet. */
void mpib_drr_enter(struct mpib_drr_class *leaf);
/* Remove a leaf whose connection is about to be freed. */
void mpib_drr_leave(struct mpib_drr_class *leaf);
/* Make the leaf and its ancestors active, because the leaf has something to
 * send. */
void mpib_drr_wake(struct mpib_drr_class *leaf);
/* Make the leaf idle, because it has nothing to send. */
void mpib_drr_idle(struct mpib_drr_class *leaf);

/* Return whether order matters: there are several leaves, and they belong to
 * several tenants or a weight was set. Idle leaves also count. Otherwise
 * another leaf could fill the queues before an idle leaf becomes active. */
bool mpib_drr_contended(const struct mpib_drr_class *root);

struct mpib_drr_turn {
	unsigned left; /* send ops that may still be posted */
	unsigned posted;
	/* a class that has something to post must first pay its debt */
	bool in_debt;
	bool shut; /* a leaf returned MPIB_DRR_WINDOW_FULL in this round */
	/* How many more visits without a post this turn may make in the current
	 * tenant. */
	unsigned looks;
	unsigned spent; /* number of leaves that stopped for lack of credit */
	/* the next turns must visit leaves that this turn left out */
	bool unseen;
	uint64_t now_ns;
	/* Earliest time at which a waiting class gets tokens; UINT64_MAX: no
	 * class waits for tokens. */
	uint64_t wake_ns;
	mpib_drr_run_fn *run;
};

/* Make one round over the active children of `root`. Post at most t->left send
 * ops, and count them in t->posted. If all children are in debt, make more
 * rounds, up to a limit, until a child posts. */
void mpib_drr_round(struct mpib_drr_class *root, struct mpib_drr_turn *t);

/* Return whether the class or one of its ancestors waits for tokens of its
 * limit. */
bool mpib_drr_is_held(const struct mpib_drr_class *n);

#endif
