/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DRR classes: who may post how much. A tree of tenants, the clients of each
 * tenant and the connections of each client, the leaves, is served by deficit
 * round robin at each level. When its turn comes, a class gets a quantum of
 * credit by its weight; it pays for what it posts, and while its credit is not
 * above 0 its siblings are served in its place. A class without active siblings
 * needs no credit.
 *
 * A limit is a bucket of tokens filled by time: a class without tokens is
 * passed over, whatever its credit.
 *
 * A class none of whose leaves can post, as they have no clear-to-send yet, keeps
 * its place and its credit, and has its next quantum when the others had theirs.
 * They are served meanwhile; but when the clear-to-send is there, it is first.
 *
 * Leaves that wait for their clear-to-send cost a look each, and a tenant may have very
 * many: in a turn so many of them are looked at, and the others in the next turns. A
 * round in which one used up its credit, while the tenant has some, is as a turn.
 *
 * A leaf that lacks room which other leaves want, too, and says so with
 * MPIB_DRR_BLOCKED or MPIB_DRR_WINDOW_FULL, keeps its place in the order and
 * its credit, so that it gets the next room.
 *
 * Shard thread; but the control thread sets weight and rate, at any time.
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
/* Bytes of credit that a send op costs beside its payload. */
#define MPIB_DRR_OP 256
/* A bucket holds the tokens of so much time: the longest burst. */
#define MPIB_DRR_BURST_NS 10000000ull

TAILQ_HEAD(mpib_drr_list, mpib_drr_class);

struct mpib_drr_class {
	struct mpib_drr_class *parent; /* NULL: the root */
	struct mpib_drr_list active; /* children with something to send */
	TAILQ_ENTRY(mpib_drr_class) link;
	_Atomic uint32_t weight; /* 1..MPIB_DRR_WEIGHT_MAX */
	_Atomic uint64_t rate; /* bytes a second, 0: no limit */
	uint32_t children; /* active ones */
	uint32_t members; /* children with leaves that entered, active or not */
	uint32_t leaves; /* root: leaves that entered */
	uint32_t sweep; /* root: over all active leaves; tenant: its last one */
	uint32_t looked; /* tenant: looks in that; UINT32_MAX: all had theirs */
	_Atomic bool weighted; /* root: some weight is not MPIB_DRR_WEIGHT */
	uint32_t grants; /* quanta given to children, so far */
	uint32_t
		left_at; /* parent's grants at its own, or when it became idle */
	int64_t credit; /* bytes; below 0: debt */
	bool on; /* on the parent's list of active children */
	bool granted; /* got the quantum of this round */
	bool alone; /* had no active sibling when last visited */
	bool owes; /* tenant: in this sweep some class was in debt */
	/* The bucket of the limit. */
	int64_t tokens; /* bytes << 20 */
	uint64_t filled_ns; /* when tokens were added last */
	uint64_t held; /* times the class was passed over without tokens */
};

/* Why a run of a leaf ended. */
#define MPIB_DRR_NONE 0 /* the leaf cannot post: its turn is over */
#define MPIB_DRR_RAN 1 /* its send ops or its credit are used up */
/* The leaf's lane is full: the leaf keeps its turn. */
#define MPIB_DRR_BLOCKED (-1)
/* The rail is full for all leaves: this one keeps its turn, and no class begins
 * a new turn in this round. */
#define MPIB_DRR_WINDOW_FULL (-2)
#define MPIB_DRR_IDLE (-3) /* nothing is left to send */

/* What a leaf may post without a look at the others. */
struct mpib_drr_run {
	unsigned left; /* send ops */
	int64_t credit; /* above 0 before each of them: mpib_drr_pay() */
};

/* The leaf has posted a send op. False: the run is over, MPIB_DRR_RAN. */
static inline bool mpib_drr_pay(struct mpib_drr_run *run, uint64_t bytes)
{
	run->credit -= (int64_t)bytes + MPIB_DRR_OP;
	return --run->left > 0 && run->credit > 0;
}

/* Post send ops of the leaf, of which run allows one at least: MPIB_DRR_*. */
typedef int mpib_drr_run_fn(struct mpib_drr_class *leaf,
			    struct mpib_drr_run *run);

/* Control thread, before the shard sees n. parent is NULL for a root. */
void mpib_drr_init(struct mpib_drr_class *n, struct mpib_drr_class *parent);
/* Any thread, any time. weight 0: MPIB_DRR_WEIGHT; rate in bytes per second, 0:
 * no limit. */
void mpib_drr_set(struct mpib_drr_class *n, uint32_t weight, uint64_t rate);

/* Bytes per second, 0: no limit. Relaxed: mpib_drr_set() stores it for itself. */
static inline uint64_t mpib_drr_rate(const struct mpib_drr_class *n)
{
	return atomic_load_explicit(&n->rate, memory_order_relaxed);
}

/* Shard thread. What a round gives n. Relaxed: mpib_drr_set() stores it for itself. */
static inline int64_t mpib_drr_quantum_of(const struct mpib_drr_class *n)
{
	return (int64_t)atomic_load_explicit(&n->weight, memory_order_relaxed) *
	       MPIB_DRR_QUANTUM;
}

/* The leaf's connection has started; it is not active yet. */
void mpib_drr_enter(struct mpib_drr_class *leaf);
/* The leaf's connection is about to be freed. */
void mpib_drr_leave(struct mpib_drr_class *leaf);
/* The leaf has something to send: make it and its ancestors active. */
void mpib_drr_wake(struct mpib_drr_class *leaf);
/* The leaf has nothing to send. */
void mpib_drr_idle(struct mpib_drr_class *leaf);

/*
 * Whether order matters: several leaves are there, and they belong to several
 * tenants or some weight was set. Idle leaves count, too: one that wakes up
 * must not find queues that another filled in the meantime.
 */
bool mpib_drr_contended(const struct mpib_drr_class *root);

struct mpib_drr_turn {
	unsigned left; /* send ops that may still be posted */
	unsigned posted;
	bool in_debt; /* some class only has to work off its debt */
	bool shut; /* a leaf said MPIB_DRR_WINDOW_FULL in this round */
	unsigned looks; /* that a tenant has left for leaves that cannot post */
	unsigned spent; /* leaves that could post no more for lack of credit */
	bool unseen; /* there are leaves that the next turns look at */
	uint64_t now_ns;
	uint64_t wake_ns; /* when a limit has tokens again; UINT64_MAX: none */
	mpib_drr_run_fn *run;
};

/* One round over the active children of root: at most t->left send ops, counted
 * in t->posted. If all are in debt, as many rounds as it takes to post, within
 * a bound. */
void mpib_drr_round(struct mpib_drr_class *root, struct mpib_drr_turn *t);

/* Whether n or one of its ancestors waits for tokens of its limit. */
bool mpib_drr_is_held(const struct mpib_drr_class *n);

#endif
