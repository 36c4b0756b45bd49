/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mover with grouped receives. Each receive has several buffers, which are
 * filled by the sends with their tags in changing order.
 */
#ifndef MPIB_TESTS_GROUPER_H
#define MPIB_TESTS_GROUPER_H

#include "mover.h"

#define GROUPER_N 4

struct grouper {
	struct mover m; /* its connection, memory and counters */
	struct mpib_request *received, *sent[GROUPER_N];
	size_t size[GROUPER_N], got[GROUPER_N];
	unsigned posted; /* number of sends posted after the receive */
	bool flying;
};

/* Do the same as mover_step(). Open and close the member m with the functions
 * of mover.h. */
int grouper_step(struct grouper *g);

#endif
