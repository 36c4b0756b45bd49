/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Movers and groupers that move messages in both directions between two nodes
 * while the test changes the nodes. Some of them use ordinary memory, and
 * others use memory of the proxy. If a message is wrong or a call fails, the
 * test fails. If a message hangs, the test also prints the state of both nodes.
 */
#ifndef MPIB_TESTS_MOVING_H
#define MPIB_TESTS_MOVING_H

#include "grouper.h"
#include "node.h"

#define MOVING_SINGLE 8
#define MOVING_GROUPED 4
#define MOVING_HANG_MS 60000
/* The nodes' failover.grace. This time is long, so that the test does not fail
 * if the machine stalls. */
#define MOVING_GRACE_MS "120000"

struct moving {
	const struct node *node; /* the two nodes */
	struct mover single[MOVING_SINGLE];
	struct grouper grouped[MOVING_GROUPED];
};

/* Start nodes number `n` and `n + 1` with these arguments, which end with a
 * NULL. Start movers between the nodes. */
void moving_start(struct moving *m, struct node node[2], unsigned n,
		  const char *const *args);
/* Make steps until each mover has moved another `messages` messages. */
void moving_by(struct moving *m, uint64_t messages);
/* Close all movers, and check that no message was wrong. Check that no objects
 * of the movers remain at the nodes, and stop the nodes. */
void moving_end(struct moving *m, struct node node[2]);

/* Make steps until the `n` programs of `run` have ended. */
void moving_until(struct moving *m, struct run *run, unsigned n);

#endif
