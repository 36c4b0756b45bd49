/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checked traffic in both directions between two nodes, which continues while
 * the test changes them: single and grouped receives, in memory of the test and
 * of the proxy. A failure ends the test; if a message hangs, the state of both
 * nodes is printed first.
 */
#ifndef MPIB_TESTS_MOVING_H
#define MPIB_TESTS_MOVING_H

#include "grouper.h"
#include "node.h"

#define MOVING_SINGLE 8
#define MOVING_GROUPED 4
#define MOVING_HANG_MS 60000
/* failover.grace of the nodes: a machine that stalls must not fail the test. */
#define MOVING_GRACE_MS "120000"

struct moving {
	const struct node *node; /* both */
	struct mover single[MOVING_SINGLE];
	struct grouper grouped[MOVING_GROUPED];
};

void moving_open(struct moving *m, const struct node node[2]);
/* Start nodes number n and n + 1 with these arguments up to a NULL, and
 * traffic between them. */
void moving_start(struct moving *m, struct node node[2], unsigned n,
		  const char *const *args);
/* One step of each mover. */
void moving_turn(struct moving *m);
/* Move until each mover has moved this many more messages. */
void moving_by(struct moving *m, uint64_t messages);
/* Close all movers; no message may have been wrong. */
void moving_close(struct moving *m);
/* moving_close(), then check that the nodes hold nothing of the movers any
 * more, and stop the nodes. */
void moving_end(struct moving *m, struct node node[2]);

/* Keep the traffic going until the n runs have ended. */
void moving_until(struct moving *m, struct run *run, unsigned n);

#endif
