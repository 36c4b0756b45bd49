/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checked traffic between two nodes, on one thread. The bytes of a message
 * depend only on its connection and number. As soon as a request completes, its
 * buffer is overwritten. Before the buffer is posted again, its bytes are
 * checked. So the test detects a replay from a reused buffer, and a late write
 * into such a buffer.
 */
#ifndef MPIB_TESTS_FAULT_TRAFFIC_H
#define MPIB_TESTS_FAULT_TRAFFIC_H

#include "nodes.h"

#define TRAFFIC_CONNS 8
#define TRAFFIC_WINDOW 8
#define TRAFFIC_GROUPED 4 /* number of buffers of a grouped receive */
#define TRAFFIC_MAX (192u << 10)
#define TRAFFIC_MEM ((size_t)2 * TRAFFIC_CONNS * TRAFFIC_WINDOW * TRAFFIC_MAX)

enum traffic_kind {
	TRAFFIC_PLAIN,
	TRAFFIC_PARTS, /* both ends post each buffer in several parts */
	/* Each receive has four buffers. At most a window of groups is
	 * outstanding. Sends with the same tag stay in order, sends with
	 * different tags do not. Some sends are posted in parts. Some sends
	 * start before the other sends for the same receive are posted. */
	TRAFFIC_GROUP,
};

struct end {
	struct node *node;
	struct mpib_producer ring;
	uint32_t index;
	/* numbers of messages or groups that were posted and that have
	 * completed */
	uint64_t posted, done;
};

struct conn {
	enum traffic_kind kind;
	unsigned number;
	struct end tx, rx;
	/* number of the next group to send, by tag */
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
/* Post and complete as much as possible. If `posting` is false, post nothing
 * new. */
void traffic_turn(struct traffic *t, bool posting);
/* Return whether all posted messages have completed. */
bool traffic_dry(const struct traffic *t);
/* Make turns until all posted messages have completed. End the program after
 * HANG_MS. If `n` is not NULL, also make the turns of the nodes' threads. */
void traffic_run_dry(struct traffic *t, struct nodes *n);
/* Make turns for `ns` nanoseconds, but at least one turn. */
void traffic_run_for(struct traffic *t, uint64_t ns);
/* Make turns until all rails of both nodes are live. End the program after
 * HANG_MS. */
void traffic_until_live(struct traffic *t, struct nodes *n);
/* Set the mark. From now on, record when each connection completes the first
 * message that is posted after the mark. */
void traffic_mark(struct traffic *t);
/* Return the time when every connection had completed a message after the mark;
 * 0: not yet. */
uint64_t traffic_marked(const struct traffic *t);
/* Make turns until each connection has completed its first message after the
 * mark. Return the time of the last completion. After HANG_MS, call die() with
 * `what`, the name of the case. */
uint64_t traffic_until_marked(struct traffic *t, const char *what);

#endif
