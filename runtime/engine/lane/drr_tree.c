/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of DRR classes: what is in it, and by which weight and limit. Shard
 * thread, but for mpib_drr_init() and mpib_drr_set().
 */
#include "engine/lane/drr.h"

#include <stdatomic.h>
#include <stddef.h>

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
 * An idle class becomes active again. Within the round in which it became idle,
 * it goes on with its turn if that was not over, else it waits for its next
 * turn, with the debt that it had: pausing between two messages is neither
 * better nor worse than having all messages at once. A class that was idle for
 * longer is served next.
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
