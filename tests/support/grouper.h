/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mover with grouped receives. Each receive has several buffers with a tag
 * each. The order of the sends changes from receive to receive.
 */
#ifndef MPIB_TESTS_GROUPER_H
#define MPIB_TESTS_GROUPER_H

#include "mover.h"

#define GROUPER_N 4

struct grouper {
	struct mover m; /* its connection, memory and counters */
	struct mpib_request *received, *sent[GROUPER_N];
	size_t size[GROUPER_N], got[GROUPER_N];
	unsigned posted; /* number of sends posted for the current receive */
	bool flying;
};

/* Do the same as mover_step(). To open and close a grouper, open and close its
 * mover `m`. */
int grouper_step(struct grouper *g);

#endif
