/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checked traffic between two nodes, played on one thread. Every message is
 * known from its connection and number. A buffer is overwritten the moment it
 * is handed back and looked at before it is posted again: what is replayed from
 * it, or lands in it, after that is found out.
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
	/* Receives of four buffers. Their sends come in any order that keeps
	 * that of each tag, up to a window ahead; some come in parts, and some
	 * are not to be held for the others of their receive. */
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
	uint64_t drawn; /* tags */
	bool poisoned[TRAFFIC_WINDOW];
	uint64_t last_ns; /* a message ended that was posted after mark */
	uint64_t mark; /* number of the first message posted after it */
};

struct traffic {
	struct conn conn[TRAFFIC_CONNS];
	unsigned conns;
	uint64_t seed; /* of the orders in which tags come */
	uint32_t fixed; /* 0: sizes by chance; else all of this size */
	uint64_t messages, bytes;
};

/* Connects all; before nodes_start(). */
void traffic_open(struct traffic *t, struct nodes *n, unsigned conns);
/* Post and take what can be; posting false lets it run dry. */
void traffic_turn(struct traffic *t, bool posting);
/* Everything posted has ended. */
bool traffic_dry(const struct traffic *t);
/* Turns until then, or else it dies. n, unless NULL: the caller plays the threads
 * of these, too. */
void traffic_run_dry(struct traffic *t, struct nodes *n);
/* Turns for ns, at least one. */
void traffic_run_for(struct traffic *t, uint64_t ns);
/* Turns until all rails of both are live, or else it dies. */
void traffic_until_live(struct traffic *t, struct nodes *n);
/* From now on a message of each connection is waited for. */
void traffic_mark(struct traffic *t);
/* The time when the last of them ended; 0: not yet. */
uint64_t traffic_marked(const struct traffic *t);
/* Make turns until then, and return that time. After HANG_MS die() names the case
 * `what`. */
uint64_t traffic_until_marked(struct traffic *t, const char *what);

#endif
