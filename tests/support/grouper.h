/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mover with grouped receives: each receive has several buffers, filled by
 * the sends with their tags, in changing order.
 */
#ifndef MPIB_TESTS_GROUPER_H
#define MPIB_TESTS_GROUPER_H

#include "mover.h"

#define GROUPER_N 4

struct grouper {
	struct mover m; /* its connection, its memory, its counts */
	struct mpib_request *received, *sent[GROUPER_N];
	size_t size[GROUPER_N], got[GROUPER_N];
	unsigned posted; /* sends posted, after the receive */
	bool flying;
};

/* Like mover_step(). Open and close the member m with the calls of mover.h. */
int grouper_step(struct grouper *g);

#endif
