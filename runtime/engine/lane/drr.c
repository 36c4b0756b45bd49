/* SPDX-License-Identifier: Apache-2.0 */
/* Deficit round robin over the tree of DRR classes, see drr.h. Shard thread. */
#include "engine/lane/drr.h"

#include <stdatomic.h>
#include <stddef.h>

#define TOKEN_SHIFT 20
#define NS 1000000000ull
/* Longest time for which tokens are added at once. At the highest rate, the
 * tokens of a longer time do not fit into 63 bits. */
#define FILL_NS (5 * NS)
/* bytes/s; lower rates would need a finer unit of tokens */
#define RATE_MIN 10000
/* maximum number of rounds in one call, so that classes can pay their debt */
#define ROUNDS 64
/* A turn visits at most this many of a tenant's leaves that cannot post. These
 * visits take about 20 us. */
#define LOOKS 256

/* Add the tokens that are due to the bucket of `n`. False: the bucket is still
 * empty. If the bucket will have tokens before t->wake_ns, set t->wake_ns to
 * that time. */
static bool has_tokens(struct mpib_drr_class *n, struct mpib_drr_turn *t)
{
	uint64_t rate =
		mpib_drr_rate(n) < RATE_MIN ? RATE_MIN : mpib_drr_rate(n);
	uint64_t per_ns = (rate << TOKEN_SHIFT) / NS;
	uint64_t ns = t->now_ns - n->filled_ns;
	int64_t most = (int64_t)(per_ns * MPIB_DRR_BURST_NS);

	n->filled_ns = t->now_ns;
	n->tokens += (int64_t)(per_ns * (ns < FILL_NS ? ns : FILL_NS));
	if (n->tokens > most)
		n->tokens = most;
	if (n->tokens > 0)
		return true;
	ns = t->now_ns + 1 + (uint64_t)-n->tokens / per_ns;
	if (ns < t->wake_ns)
		t->wake_ns = ns;
	n->held++;
	return false;
}

/* Grant the quantum of a round. Unused credit of the last round is lost, but
 * debt remains. A class with any credit may post a send op, so its debt is at
 * most the size of one send op, up to 2 GiB. */
static void drr_grant(struct mpib_drr_class *n)
{
	int64_t quantum = mpib_drr_quantum_of(n);

	n->granted = true;
	n->left_at = ++n->parent->grants;
	n->credit = n->alone || n->credit > 0 ? quantum : n->credit + quantum;
}

/* Renew the credit of n, which n used up on `ops` send ops. n has no active
 * sibling. Grant the quanta that n used, at most one per send op. */
static void drr_renew(struct mpib_drr_class *n, unsigned ops)
{
	int64_t quantum = mpib_drr_quantum_of(n),
		used = 1 - n->credit / quantum;

	n->parent->grants += used < ops ? (uint32_t)used - 1 : ops - 1;
	drr_grant(n);
}

/* Charge the leaf and all its ancestors for `ops` send ops. Return the lowest
 * class that has no credit left; NULL: all have credit. */
static struct mpib_drr_class *drr_charge(struct mpib_drr_class *leaf,
					 int64_t bytes, unsigned ops)
{
	struct mpib_drr_class *n, *up, *broke = NULL;

	for (n = leaf; (up = n->parent); n = up) {
		n->credit -= bytes + (int64_t)ops * MPIB_DRR_OP;
		if (n->credit <= 0 && n->alone)
			drr_renew(n, ops);
		else if (n->credit <= 0 && !broke)
			broke = n;
		if (mpib_drr_rate(n) != 0) {
			n->tokens -= bytes << TOKEN_SHIFT;
			if (n->tokens <= 0 && !broke)
				broke = n;
		}
	}
	return broke;
}

/* Return how much credit the leaf may use before the leaf or an ancestor has no
 * credit left. */
static int64_t credit_of(const struct mpib_drr_class *leaf)
{
	int64_t least = INT64_MAX;

	for (const struct mpib_drr_class *n = leaf; n->parent; n = n->parent) {
		int64_t tokens = (n->tokens >> TOKEN_SHIFT) + 1;

		if (!n->alone && n->credit < least)
			least = n->credit;
		if (mpib_drr_rate(n) != 0 && tokens < least)
			least = tokens;
	}
	return least;
}

enum drr_outcome {
	OVER, /* the class's turn has ended */
	KEEP, /* the class keeps its turn until there is room */
	STOP, /* stop visiting: an ancestor's or the shard's turn has ended */
};

static bool can_pay(const struct mpib_drr_class *n)
{
	return n->credit > 0 && (!mpib_drr_rate(n) || n->tokens > 0);
}

/* Return whether n and all its ancestors have credit. */
static bool all_can_pay(const struct mpib_drr_class *n)
{
	while (n->parent && can_pay(n))
		n = n->parent;
	return !n->parent;
}

/* Handle the end of a leaf's run. `why` is an MPIB_DRR_* value other than
 * MPIB_DRR_RAN. */
static enum drr_outcome leaf_stopped(struct mpib_drr_class *leaf,
				     struct mpib_drr_turn *t, int why)
{
	if (why == MPIB_DRR_IDLE)
		mpib_drr_idle(leaf);
	t->shut |= why == MPIB_DRR_WINDOW_FULL;
	return why == MPIB_DRR_BLOCKED || why == MPIB_DRR_WINDOW_FULL ? KEEP
								      : OVER;
}

/* Let the leaf post until it has used `credit` bytes of credit, and charge the
 * leaf and its ancestors. Return an MPIB_DRR_* value. Set *broke to the lowest
 * class without credit; NULL: all have credit. */
static inline int run_leaf(struct mpib_drr_class *leaf, struct mpib_drr_turn *t,
			   int64_t credit, const struct mpib_drr_class **broke)
{
	struct mpib_drr_run run = { t->left, credit };
	int why = t->run(leaf, &run);
	unsigned ops = t->left - run.left;

	t->left = run.left;
	t->posted += ops;
	*broke = ops ? drr_charge(leaf,
				  credit - run.credit -
					  (int64_t)ops * MPIB_DRR_OP,
				  ops)
		     : NULL;
	return why;
}

static enum drr_outcome serve_leaf(struct mpib_drr_class *leaf,
				   struct mpib_drr_turn *t)
{
	while (t->left > 0) {
		const struct mpib_drr_class *broke;
		int why = run_leaf(leaf, t, credit_of(leaf), &broke);

		if (why != MPIB_DRR_RAN)
			return leaf_stopped(leaf, t, why);
		if (broke == leaf) {
			t->spent++;
			return OVER;
		}
		if (broke)
			return STOP;
	}
	return STOP;
}

static enum drr_outcome round_of(struct mpib_drr_class *p,
				 struct mpib_drr_turn *t);

/* Make rounds over the children of n while n has credit. */
static enum drr_outcome serve_inner(struct mpib_drr_class *n,
				    struct mpib_drr_turn *t)
{
	bool in_debt = t->in_debt;
	unsigned posted, spent;
	enum drr_outcome o;
	int rounds = 0;

	do {
		posted = t->posted;
		spent = t->spent;
		t->in_debt = false;
		o = round_of(n, t);
		in_debt |= t->in_debt;
		/* A leaf stopped only because it has used up its own credit.
		 * Such a visit was useful, so allow as many visits as in a new
		 * turn. */
		if (t->spent != spent)
			t->looks = LOOKS;
	} while (o == OVER && !n->alone && n->on &&
		 (t->posted != posted || t->in_debt) && t->looks > 0 &&
		 ++rounds < ROUNDS);
	t->in_debt = in_debt;
	/* If a child returns STOP, the reason may be that n's own turn has
	 * ended. */
	return o == STOP && !can_pay(n) ? OVER : o;
}

static enum drr_outcome drr_visit(struct mpib_drr_class *n,
				  struct mpib_drr_turn *t)
{
	if (!n->granted && t->shut)
		return KEEP;
	if (!n->granted || (n->alone && n->credit <= 0))
		drr_grant(n);
	if (n->credit <= 0) {
		t->in_debt = true;
		return OVER;
	}
	if (mpib_drr_rate(n) && !has_tokens(n, t))
		return OVER;
	return TAILQ_EMPTY(&n->active) ? serve_leaf(n, t) : serve_inner(n, t);
}

/* If all children are in debt, count the rounds until the first child has paid
 * its debt, and grant the quanta of all these rounds in one step. */
static void skip_rounds(struct mpib_drr_class *p)
{
	int64_t least = INT64_MAX;
	struct mpib_drr_class *n;

	TAILQ_FOREACH(n, &p->active, link)
	{
		int64_t rounds =
			n->credit > 0 ? 0 : -n->credit / mpib_drr_quantum_of(n);

		least = rounds < least ? rounds : least;
	}
	TAILQ_FOREACH(n, &p->active, link)
	{
		n->credit += least * mpib_drr_quantum_of(n);
		p->grants += (uint32_t)least;
	}
}

static void drr_to_end(struct mpib_drr_class *n)
{
	TAILQ_REMOVE(&n->parent->active, n, link);
	TAILQ_INSERT_TAIL(&n->parent->active, n, link);
}

/* End the turn of n, which has siblings. If n posted nothing although it had
 * credit, n keeps its place in the list. It also keeps its credit until its
 * siblings have had a round. */
static void drr_over(struct mpib_drr_class *n, bool posted)
{
	struct mpib_drr_class *p = n->parent;
	bool waits = !posted && !TAILQ_EMPTY(&n->active) && can_pay(n);

	if (waits && p->grants - n->left_at < p->children - 1)
		return;
	n->granted = false;
	if (!waits)
		drr_to_end(n);
}

/* Return the number of a tenant's active connections. */
static uint32_t leaves_of(const struct mpib_drr_class *tenant)
{
	const struct mpib_drr_class *n;
	uint32_t leaves = 0;

	TAILQ_FOREACH(n, &tenant->active, link)
	leaves += n->children;
	return leaves;
}

/* After a visit to the tenant, return whether more classes of the tenant must
 * be visited before the shard may sleep. Classes in debt get one visit per
 * sweep. */
static bool drr_is_unseen(struct mpib_drr_class *n,
			  const struct mpib_drr_turn *t)
{
	n->owes |= t->in_debt && !t->shut;
	if (t->looks > 0)
		n->looked = UINT32_MAX;
	else if (n->looked < UINT32_MAX)
		n->looked += LOOKS;
	if (n->looked < leaves_of(n))
		return true;
	if (!n->owes)
		return false;
	n->looked = 0;
	n->owes = false;
	return true;
}

static enum drr_outcome visit_tenant(struct mpib_drr_class *n,
				     struct mpib_drr_turn *t)
{
	enum drr_outcome o;

	if (n->sweep != n->parent->sweep)
		n->looked = 0;
	n->sweep = n->parent->sweep;
	t->looks = LOOKS;
	o = drr_visit(n, t);
	t->unseen |= drr_is_unseen(n, t);
	return o;
}

/* Count a visit to n. Return false if the turn has visited enough leaves that
 * posted nothing. If a leaf had nothing to send, do not count the visit,
 * because the leaf has left the list of active leaves. */
static bool drr_looks_on(const struct mpib_drr_class *n, enum drr_outcome o,
			 bool posted, struct mpib_drr_turn *t)
{
	if (o == OVER && !posted && n->on && t->looks > 0 &&
	    TAILQ_EMPTY(&n->active))
		t->looks--;
	return t->looks > 0;
}

/* The visit to n used up this turn's visits: set where the next turn starts.
 * `looks` is the number of visits that were left when the visit to n began. The
 * next turn starts after n, or at n again if `looks` was less than half of all
 * visits. For a leaf there is nothing to set, because leaves are visited in
 * order. */
static void drr_go_on_from(struct mpib_drr_class *n, unsigned looks)
{
	struct mpib_drr_class *first, *next;

	if (TAILQ_EMPTY(&n->active))
		return;
	next = looks < LOOKS / 2 ? n : TAILQ_NEXT(n, link);
	while (next && (first = TAILQ_FIRST(&n->parent->active)) != next)
		drr_to_end(first);
}

/* Visit each active child of p once. Children whose turn has ended move to the
 * end of the list, so the first child has waited longest. */
static enum drr_outcome round_of(struct mpib_drr_class *p,
				 struct mpib_drr_turn *t)
{
	struct mpib_drr_class *n, *next,
		*first = TAILQ_FIRST(&p->active),
		*last = TAILQ_LAST(&p->active, mpib_drr_list);
	bool alone = first == last, kept = false;
	unsigned posted = t->posted;

	for (n = first; n; n = next) {
		unsigned before = t->posted, looks = t->looks;
		enum drr_outcome o;

		next = n == last ? NULL : TAILQ_NEXT(n, link);
		n->alone = alone;
		o = p->parent ? drr_visit(n, t) : visit_tenant(n, t);
		kept |= o == KEEP;
		if (o == OVER && n->on && !alone)
			drr_over(n, t->posted != before);
		if (o == STOP || t->left == 0 || !all_can_pay(p))
			return STOP;
		if (!p->parent || drr_looks_on(n, o, t->posted != before, t))
			continue;
		drr_go_on_from(n, looks);
		break;
	}
	if (t->in_debt && t->posted == posted && !TAILQ_EMPTY(&p->active))
		skip_rounds(p);
	return kept ? KEEP : OVER;
}

/* If only one leaf is active, grant a quantum to the leaf and to its ancestors,
 * as round_of() would, and return the leaf. NULL: several leaves are active, or
 * a class has a limit. */
static struct mpib_drr_class *only_leaf(const struct mpib_drr_class *root)
{
	struct mpib_drr_class *n = TAILQ_FIRST(&root->active), *below;

	for (; n && !TAILQ_NEXT(n, link) && !mpib_drr_rate(n); n = below) {
		n->alone = true;
		if (!n->granted || n->credit <= 0)
			drr_grant(n);
		below = TAILQ_FIRST(&n->active);
		if (!below)
			return n;
	}
	return NULL;
}

/* Serve the leaf from only_leaf(). The leaf needs no credit, so one run posts
 * everything that the turn allows. */
static void serve_only(struct mpib_drr_class *leaf, struct mpib_drr_turn *t)
{
	const struct mpib_drr_class *broke;

	if (run_leaf(leaf, t, INT64_MAX, &broke) == MPIB_DRR_IDLE)
		mpib_drr_idle(leaf);
}

void mpib_drr_round(struct mpib_drr_class *root, struct mpib_drr_turn *t)
{
	struct mpib_drr_class *only = only_leaf(root);
	int rounds = 0;

	t->in_debt = t->shut = false;
	if (only) {
		serve_only(only, t);
		return;
	}
	do {
		t->in_debt = t->shut = t->unseen = false;
		round_of(root, t);
		root->sweep += !t->unseen;
		t->in_debt &= !t->shut;
	} while (t->posted == 0 && t->in_debt && ++rounds < ROUNDS);
}

/* The tree of DRR classes: members, weights and limits. Shard thread, except
 * mpib_drr_init() and mpib_drr_set(). */

static struct mpib_drr_class *root_of(struct mpib_drr_class *n)
{
	while (n->parent)
		n = n->parent;
	return n;
}

void mpib_drr_init(struct mpib_drr_class *n, struct mpib_drr_class *parent)
{
	*n = (struct mpib_drr_class){ .parent = parent };
	TAILQ_INIT(&n->active);
	mpib_drr_set(n, 0, 0);
}

void mpib_drr_set(struct mpib_drr_class *n, uint32_t weight, uint64_t rate)
{
	if (weight == 0)
		weight = MPIB_DRR_WEIGHT;
	if (weight > MPIB_DRR_WEIGHT_MAX)
		weight = MPIB_DRR_WEIGHT_MAX;
	if (weight != MPIB_DRR_WEIGHT)
		atomic_store_explicit(&root_of(n)->weighted, true,
				      memory_order_relaxed);
	atomic_store_explicit(&n->weight, weight, memory_order_relaxed);
	atomic_store_explicit(&n->rate, rate, memory_order_relaxed);
}

void mpib_drr_enter(struct mpib_drr_class *leaf)
{
	root_of(leaf)->leaves++;
	for (struct mpib_drr_class *n = leaf; n->parent; n = n->parent) {
		if (n->parent->members++ > 0)
			break;
	}
}

void mpib_drr_leave(struct mpib_drr_class *leaf)
{
	mpib_drr_idle(leaf);
	root_of(leaf)->leaves--;
	for (struct mpib_drr_class *n = leaf; n->parent; n = n->parent) {
		if (--n->parent->members > 0)
			break;
	}
}

/*
 * Make an idle class active again. If the class became idle in the current
 * round, during its turn, the turn continues. If its turn in the current round
 * had ended, the class waits for its next turn and keeps its debt. So a pause
 * between two messages is neither an advantage nor a disadvantage. A class that
 * was idle for longer is served next.
 */
static void drr_join(struct mpib_drr_class *n)
{
	struct mpib_drr_class *p = n->parent;
	uint32_t rounds = (p->grants - n->left_at) / (p->children + 1);

	n->on = true;
	p->children++;
	if (rounds > 0) {
		n->granted = false;
		n->credit += (int64_t)rounds * mpib_drr_quantum_of(n);
		if (n->credit > 0)
			n->credit = 0;
	}
	if (rounds > 0 || (n->granted && n->credit > 0)) {
		TAILQ_INSERT_HEAD(&p->active, n, link);
	} else {
		n->granted = false;
		TAILQ_INSERT_TAIL(&p->active, n, link);
	}
}

void mpib_drr_wake(struct mpib_drr_class *leaf)
{
	for (struct mpib_drr_class *n = leaf; n->parent && !n->on;
	     n = n->parent)
		drr_join(n);
}

void mpib_drr_idle(struct mpib_drr_class *leaf)
{
	for (struct mpib_drr_class *n = leaf;
	     n->parent && n->on && TAILQ_EMPTY(&n->active); n = n->parent) {
		struct mpib_drr_class *p = n->parent;

		TAILQ_REMOVE(&p->active, n, link);
		n->on = false;
		n->left_at = p->grants;
		p->children--;
	}
}

bool mpib_drr_contended(const struct mpib_drr_class *root)
{
	return root->leaves > 1 &&
	       (root->members > 1 ||
		atomic_load_explicit(&root->weighted, memory_order_relaxed));
}

bool mpib_drr_is_held(const struct mpib_drr_class *n)
{
	for (; n->parent; n = n->parent) {
		if (mpib_drr_rate(n) && n->tokens <= 0)
			return true;
	}
	return false;
}
