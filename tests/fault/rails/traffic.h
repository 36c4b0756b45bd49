/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checked traffic between two nodes, on one thread. The bytes of a message
 * follow from its connection and number. A buffer is overwritten as soon as its
 * request completes, and checked before it is posted again. So a replay from
 * it, or a late write to it, is found.
 */
#ifndef MPIB_TESTS_FAULT_TRAFFIC_H
#define MPIB_TESTS_FAULT_TRAFFIC_H

#include "nodes.h"

#define TRAFFIC_CONNS 8
#define TRAFFIC_WINDOW 8
#define TRAFFIC_GROUPED 4 /* buffers of a grouped receive */
#define TRAFFIC_MAX (192u << 10)
#define TRAFFIC_MEM ((size_t)2 * TRAFFIC_CONNS * TRAFFIC_WINDOW * TRAFFIC_MAX)

enum traffic_kind {
	TRAFFIC_PLAIN,
	TRAFFIC_PARTS, /* both ends describe their buffers in parts */
	/* Receives of four buffers. Their sends are posted up to a window
	 * ahead, in any order that keeps the order of each tag. Some are
	 * posted in parts, and some are not held for the others of their
	 * receive. */
	TRAFFIC_GROUP,
};

struct end {
	struct node *node;
	struct mpib_producer ring;
	uint32_t index;
	uint64_t posted, done; /* messages (groups) */
};

struct conn {
	enum traffic_kind kind;
	unsigned number;
	struct end tx, rx;
	uint64_t next[TRAFFIC_GROUPED]; /* of a group: sends posted, by tag */
	uint64_t drawn; /* tags drawn */
	bool poisoned[TRAFFIC_WINDOW];
	uint64_t last_ns; /* of the first message after the mark */
	uint64_t mark; /* number of the first message posted after it */
};

struct traffic {
	struct conn conn[TRAFFIC_CONNS];
	unsigned conns;
	uint64_t seed; /* of the order of tags */
	uint32_t fixed; /* 0: random sizes; otherwise the size of all */
	uint64_t messages, bytes;
};

/* Connect all connections, before nodes_start(). */
void traffic_open(struct traffic *t, struct nodes *n, unsigned conns);
/* Post and complete as much as possible. If posting is false, only complete. */
void traffic_turn(struct traffic *t, bool posting);
/* Return whether all posted messages have completed. */
bool traffic_dry(const struct traffic *t);
/* Make turns until all posted messages have completed; ends the program after
 * HANG_MS. Unless n is NULL, make the turns of its threads, too. */
void traffic_run_dry(struct traffic *t, struct nodes *n);
/* Make turns for ns, at least one. */
void traffic_run_for(struct traffic *t, uint64_t ns);
/* Make turns until all rails of both nodes are live; ends the program after
 * HANG_MS. */
void traffic_until_live(struct traffic *t, struct nodes *n);
/* Start to wait for a message of each connection. */
void traffic_mark(struct traffic *t);
/* Return the time when the last of these messages completed; 0: not yet. */
uint64_t traffic_marked(const struct traffic *t);
/* Make turns until these messages have completed, and return that time. After
 * HANG_MS die() names the case `what`. */
uint64_t traffic_until_marked(struct traffic *t, const char *what);

#endif
