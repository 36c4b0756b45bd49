/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many nodes for one proxy: a process that plays the other nodes of a cluster
 * (nodes.c), and one that is the clients of the proxy that is measured
 * (clients.c, measure.c). Played are only the nodes' clients: brokers, engine
 * and software rails are mpib's own. All nodes have one engine, since an HCA in
 * software for each would cost more than what is measured.
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

/* Where each of the two processes is. */
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

/* Go on to the stage. */
void crowd_say(struct crowd_world *w, enum crowd_stage stage);

/* All that the process of the other nodes does. It ends with its parent. */
void crowd_nodes(struct crowd_world *w);

#endif
