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

bool mpib_drr_contended(const struct mpib_drr_class *root)
{
	return root->leaves > 1 &&
	       (root->members > 1 ||
		atomic_load_explicit(&root->weighted, memory_order_relaxed));
}
