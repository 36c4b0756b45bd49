/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares of what a shard may post: a tree of tenants, their clients and those
 * clients' connections, served by deficit round robin at each level. A child
 * is given a quantum of credit by its weight when its turn comes, pays what it
 * posts, and is passed over while it owes. What a child cannot use goes to its
 * siblings, level by level; a child that is alone needs no credit.
 *
 * A limit is a bucket of tokens that time fills; who has none is passed over,
 * whatever its credit.
 *
 * Order is kept where something is short that others want, too: a child that
 * says MPIB_DRR_BLOCKED or MPIB_DRR_WINDOW_FULL keeps its place and its credit, so
 * that the next room is its own.
 *
 * Shard thread; but weight and rate are the control thread's, which changes
 * them at any time.
 */
#ifndef MPIB_ENGINE_DRR_H
#define MPIB_ENGINE_DRR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define MPIB_DRR_WEIGHT 10u /* if nobody says otherwise */
#define MPIB_DRR_WEIGHT_MAX 100u
/* Credit of a round, a weight. */
#define MPIB_DRR_QUANTUM (16 * 1024L)
/* What a send op costs beside its bytes. */
#define MPIB_DRR_OP 256
/* A limit may be exceeded by so much of its own rate, to be saved later. */
#define MPIB_DRR_BURST_NS 10000000ull

TAILQ_HEAD(mpib_drr_list, mpib_drr_class);

struct mpib_drr_class {
	struct mpib_drr_class *parent; /* NULL: the root */
	struct mpib_drr_list active; /* children with something to send */
	TAILQ_ENTRY(mpib_drr_class) link;
	_Atomic uint32_t weight; /* 1..MPIB_DRR_WEIGHT_MAX */
	_Atomic uint64_t rate; /* bytes a second, 0: no limit */
	uint32_t children; /* active ones */
	uint32_t members; /* children that entered, active or not */
	uint32_t leaves; /* root: that entered */
	_Atomic bool weighted; /* root: some weight was not the usual one */
	uint32_t grants; /* to children, so far */
	uint32_t left_at; /* the parent's grants when it went to rest */
	int64_t credit; /* bytes; below 0: debt */
	bool on; /* the parent's list has it */
	bool granted; /* of this round */
	bool alone; /* as of this visit */
	/* Of a limit. */
	int64_t tokens; /* bytes << 20 */
	uint64_t filled_ns;
	uint64_t held; /* times it was passed over for want of tokens */
};

/* What a leaf says when it is asked to post one send op; else bytes + 1. */
#define MPIB_DRR_NONE 0 /* it cannot: its turn is over */
/* What it shares with some is short: its turn goes on later. */
#define MPIB_DRR_BLOCKED (-1)
/* What all share is short: so, and nobody begins a new turn before. */
#define MPIB_DRR_WINDOW_FULL (-2)
#define MPIB_DRR_IDLE (-3) /* nothing is left to send */

typedef int64_t mpib_drr_step_fn(struct mpib_drr_class *leaf);

/* The control thread, before the shard sees it. parent is NULL for a root. */
void mpib_drr_init(struct mpib_drr_class *n, struct mpib_drr_class *parent);
/* Any time. weight 0 is the usual one; rate is bytes a second, 0 no limit. */
void mpib_drr_set(struct mpib_drr_class *n, uint32_t weight, uint64_t rate);

/* The leaf is there, and may have something to send some time. */
void mpib_drr_enter(struct mpib_drr_class *leaf);
/* It is about to go. */
void mpib_drr_leave(struct mpib_drr_class *leaf);
/* The leaf has something to send. */
void mpib_drr_wake(struct mpib_drr_class *leaf);
/* It has nothing. */
void mpib_drr_idle(struct mpib_drr_class *leaf);

/*
 * Whether parts are not simply equal ones of connections. Not only while more
 * than one has something to send: who comes next is not to find a queue that
 * was filled in the meantime.
 */
bool mpib_drr_contended(const struct mpib_drr_class *root);

struct mpib_drr_turn {
	unsigned left; /* send ops that may still be posted */
	unsigned posted;
	bool ack_pending; /* somebody has only his debt to wait for */
	bool shut; /* somebody said so in this round */
	uint64_t now_ns;
	uint64_t wake_ns; /* when a limit lets somebody go on; UINT64_MAX */
	mpib_drr_step_fn *step;
};

/* One round, at most t->left send ops; what was posted is added to t->posted. If
 * all are in debt, rounds until one is not. */
void mpib_drr_round(struct mpib_drr_class *root, struct mpib_drr_turn *t);

/* Whether it, or what it is a part of, waits for its limit. */
bool mpib_drr_is_held(const struct mpib_drr_class *n);

#endif
