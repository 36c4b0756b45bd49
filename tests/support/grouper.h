/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mover with grouped receives. Each receive has several buffers, each with
 * its own tag. The sends of each receive are posted in a different order.
 */
#ifndef MPIB_TESTS_GROUPER_H
#define MPIB_TESTS_GROUPER_H

#include "mover.h"

#define GROUPER_N 4

struct grouper {
	struct mover m; /* the grouper's connection, memory and counters */
	struct mpib_request *received, *sent[GROUPER_N];
	size_t size[GROUPER_N], got[GROUPER_N];
	unsigned posted; /* sends that are posted for the current receive */
	bool flying;
};

/* Do the same as mover_step(). To open and close a grouper, open and close its
 * mover `m`. */
int grouper_step(struct grouper *g);

#endif
