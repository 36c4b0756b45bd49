/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two whole nodes in one process. Each node has an engine with a shard thread,
 * a broker with a control thread, two software rails and a real peer link. The
 * test acts as the clients and breaks the rails. If one of these functions
 * fails, it prints a message and ends the program.
 */
#ifndef MPIB_TESTS_FAULT_NODES_H
#define MPIB_TESTS_FAULT_NODES_H

#include <mpib/control.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/loop.h"
#include "engine/mailbox.h"
#include "engine/measure/snapshot.h"
#include "engine/shard.h"
#include "peer/broker.h"
#include "verbs/soft/soft.h"

#define MS 1000000ull
#define HANG_MS 60000 /* time limit, longer than any step of a test */

struct node {
	unsigned number;
	struct mpib_loop loop;
	struct mpib_mailbox box;
	struct mpib_io box_watch;
	pthread_t thread;
	struct mpib_engine *engine;
	struct mpib_broker *broker;
	struct mpib_tenant *tenant;
	struct engine_client *engine_client;
	struct mpib_submit *submit;
	struct mpib_reply *reply;
	int bell; /* eventfd of the client's doorbell */
	struct peer_client client;
	char *mem;
	uint32_t mr;
	const struct mpib_status *status;
	/* CLOCK_MONOTONIC ns of the last FENCE that this end sent. */
	_Atomic uint64_t fenced_ns;
	_Atomic unsigned fences;
};

struct nodes {
	struct node node[2];
	size_t mem; /* size of a node's memory in bytes */
};

/* Open both nodes. If `private_lanes` is set, each connection has its own lane,
 * which uses IMMs of version 1. */
void nodes_open(struct nodes *n, const struct mpib_engine_config *cfg,
		size_t mem, bool private_lanes);
/* Return the number of FENCEs that both ends have sent. */
static inline unsigned nodes_fences(const struct nodes *n)
{
	return atomic_load(&n->node[0].fences) +
	       atomic_load(&n->node[1].fences);
}
/* Create the connection with this index from node `from` to the other node.
 * Call this before nodes_start(). */
void nodes_connect(struct nodes *n, unsigned from, uint32_t index);
/* Start the control threads. */
void nodes_start(struct nodes *n);
void nodes_close(struct nodes *n);

/* Run fn(node, arg) on the node's control thread and wait for it. */
void node_call(struct node *node, void (*fn)(struct node *node, void *arg),
	       void *arg);
void node_fault(struct node *node, unsigned rail,
		const struct mpib_soft_fault *fault);
/* Move QP number `which` of the lane on this rail to ERR. Returns false if the
 * lane has no QP there at the moment. */
bool node_kill_qp(struct node *node, unsigned rail, unsigned which);
/* Return the mask of rails that are live at this end. */
uint8_t node_live(struct node *node);
/* Return a snapshot. The caller frees it. */
struct mpib_snapshot *node_snapshot(struct node *node);
void node_ring(struct node *node); /* ring the shard's doorbell if it sleeps */

uint64_t now_ns(void);
void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
