/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mover whose receives are grouped: each takes several buffers, every one of
 * which is filled by the send of its tag, in an order that changes.
 */
#ifndef MPIB_TESTS_GROUPER_H
#define MPIB_TESTS_GROUPER_H

#include "mover.h"

#define GROUPER_N 4

struct grouper {
	struct mover m; /* its connection, its memory, its counts */
	struct mpib_request *received, *sent[GROUPER_N];
	size_t size[GROUPER_N], got[GROUPER_N];
	unsigned posted; /* sends; the receive is before them */
	bool flying;
};

/* As those of mover.h; the mover's are for the rest of its life. */
int grouper_step(struct grouper *g);

#endif
