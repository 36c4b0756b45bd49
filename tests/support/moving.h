/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checked traffic both ways between two nodes, which goes on while something is
 * done to them: single and grouped receives, memory of ours and the proxy's.
 * Whatever fails ends the test, and what does not move says where it stands.
 */
#ifndef MPIB_TESTS_MOVING_H
#define MPIB_TESTS_MOVING_H

#include "grouper.h"
#include "node.h"

#define MOVING_SINGLE 8
#define MOVING_GROUPED 4
#define MOVING_HANG_MS 60000
/* For the nodes: a machine that stands still is to be no failure. */
#define MOVING_GRACE_MS "120000"

struct moving {
	const struct node *node; /* both */
	struct mover single[MOVING_SINGLE];
	struct grouper grouped[MOVING_GROUPED];
};

void moving_open(struct moving *m, const struct node node[2]);
/* One look at each. */
void moving_turn(struct moving *m);
/* So many messages of each. */
void moving_by(struct moving *m, uint64_t messages);
/* None was wrong. */
void moving_close(struct moving *m);
/* And nothing of the movers is left in the nodes, which end, too. */
void moving_end(struct moving *m, struct node node[2]);

/* Begin to replace the proxy's program; path NULL: by its own. */
void moving_upgrade_begin(struct run *run, const struct node *n,
			  const char *path);
/* Move until the n runs are over. */
void moving_until(struct moving *m, struct run *run, unsigned n);

#endif
