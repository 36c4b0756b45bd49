/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many nodes for one proxy: a process that plays the other nodes of a cluster
 * (nodes.c), and one with the clients of the measured proxy (clients.c,
 * measure.c). Only the nodes' clients are simulated: brokers, engine and
 * software rails are mpib's own. All nodes have one engine, since a software
 * HCA for each would cost more than the measured proxy.
 */
#ifndef BENCH_CROWD_H
#define BENCH_CROWD_H

#include <mpib/control.h>
#include <stdatomic.h>

/* Clients of the proxy, each with a connection with each node. The first half
 * of them sends. */
#define CROWD_CLIENTS 8u
#define CROWD_SENDERS (CROWD_CLIENTS / 2)
#define CROWD_BYTES 4096u /* of a message: enough for both rails */

/* The stages that the two processes reach. */
enum crowd_stage {
	CROWD_OPENING,
	CROWD_ACCEPTING, /* nodes: node[] is filled in */
	CROWD_CALLING, /* clients: client[] is filled in, the nodes may connect */
	CROWD_TALKING, /* clients: all connections are up, the nodes receive */
	CROWD_READY, /* nodes: receives are posted */
};

/* Memory that both processes share. */
struct crowd_world {
	unsigned nodes;
	const char *net; /* "127.44" */
	_Atomic int stage; /* enum crowd_stage */
	struct mpib_handle client[CROWD_CLIENTS]; /* of those that receive */
	struct mpib_handle node[]; /* where the clients connect */
};

/* Enter the stage. */
void crowd_say(struct crowd_world *w, enum crowd_stage stage);

/* Run the process of the other nodes. It ends with its parent. */
void crowd_nodes(struct crowd_world *w);

#endif
