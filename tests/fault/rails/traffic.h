/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checked traffic between two nodes, on one thread. The bytes of a message
 * follow from its connection and number. A buffer is overwritten as soon as its
 * request completes, and checked before it is posted again. So the check finds
 * a replay from a reused buffer and a late write to it.
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
	/* Each receive has four buffers. Their sends are posted up to a window
	 * ahead, in any order that keeps the order of each tag. Some are posted
	 * in parts. Some do not wait for the other sends of their receive. */
	TRAFFIC_GROUP,
};

struct end {
	struct node *node;
	struct mpib_producer ring;
	uint32_t index;
	uint64_t posted, done; /* messages, or groups of them */
};

struct conn {
	enum traffic_kind kind;
	unsigned number;
	struct end tx, rx;
	/* number of sends posted of the current group, by tag */
	uint64_t next[TRAFFIC_GROUPED];
	uint64_t drawn; /* number of tags drawn */
	bool poisoned[TRAFFIC_WINDOW];
	/* time when the first message after the mark completed */
	uint64_t last_ns;
	uint64_t mark; /* number of the first message posted after the mark */
};

struct traffic {
	struct conn conn[TRAFFIC_CONNS];
	unsigned conns;
	uint64_t seed; /* seed for the order of tags */
	uint32_t fixed; /* size of each message; 0 means random sizes */
	uint64_t messages, bytes;
};

/* Connect all connections. Call this before nodes_start(). */
void traffic_open(struct traffic *t, struct nodes *n, unsigned conns);
/* Post and complete as much as possible. If posting is false, only complete
 * messages. */
void traffic_turn(struct traffic *t, bool posting);
/* Return whether all posted messages have completed. */
bool traffic_dry(const struct traffic *t);
/* Make turns until all posted messages have completed. End the program after
 * HANG_MS. If n is not NULL, make the turns of its threads, too. */
void traffic_run_dry(struct traffic *t, struct nodes *n);
/* Make turns for ns nanoseconds, but at least one turn. */
void traffic_run_for(struct traffic *t, uint64_t ns);
/* Make turns until all rails of both nodes are live. End the program after
 * HANG_MS. */
void traffic_until_live(struct traffic *t, struct nodes *n);
/* Begin to record when each connection completes its next new message. */
void traffic_mark(struct traffic *t);
/* Return the time when the last of these messages completed, or 0 if one has
 * not. */
uint64_t traffic_marked(const struct traffic *t);
/* Make turns until these messages have completed. Return that time. After
 * HANG_MS, call die() with the case's name `what`. */
uint64_t traffic_until_marked(struct traffic *t, const char *what);

#endif
