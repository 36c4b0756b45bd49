/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulate many nodes for one proxy. One process simulates the other nodes of a
 * cluster (nodes.c). The other process has the clients of the measured proxy
 * (clients.c), queries that proxy (proxy.c) and measures it (main.c). Only the
 * clients of the other nodes are simulated: their brokers, engine and software
 * rails are mpib's own. The nodes share one engine, since a software HCA for
 * each node would cost more than the measured proxy.
 */
#ifndef BENCH_CROWD_H
#define BENCH_CROWD_H

#include <mpib/client.h>
#include <mpib/control.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/types.h>

/* The number of the proxy's clients. Each has a connection with each node. The
 * first half of the clients sends. */
#define CROWD_CLIENTS 8u
#define CROWD_SENDERS (CROWD_CLIENTS / 2)
#define CROWD_BYTES 4096u /* bytes of a message: enough to use both rails */

/* The stages of the benchmark. Each comment names the process that begins the
 * stage, and when. */
enum crowd_stage {
	CROWD_OPENING,
	CROWD_ACCEPTING, /* nodes: node[] is filled in */
	/* clients: client[] is filled in; the nodes may connect */
	CROWD_CALLING,
	/* clients: all connections are up; the nodes may post receives */
	CROWD_TALKING,
	CROWD_READY, /* nodes: receives are posted */
};

/* Memory that both processes share. */
struct crowd_world {
	unsigned nodes;
	const char *net; /* "127.44" */
	_Atomic int stage; /* enum crowd_stage */
	/* Handles of the receiving clients. */
	struct mpib_handle client[CROWD_CLIENTS];
	struct mpib_handle node[]; /* handles to which the clients connect */
};

/* Enter the stage. */
void crowd_say(struct crowd_world *w, enum crowd_stage stage);

/* Run the other nodes in this process, which ends with its parent. */
void crowd_nodes(struct crowd_world *w);

/*
 * The clients. Connection `i` of client `k` is with node `i`. The first
 * CROWD_SENDERS clients send, the others receive. One thread. A failed call
 * ends the program.
 */

/* A lane and the first client's connection on this lane. The connection has one
 * message in flight. */
struct crowd_talk {
	struct mpib_request *req; /* NULL: none */
	uint64_t posted, over; /* times of the last message, ns */
	/* Time when the first message after `mark` completed; 0: not yet. */
	uint64_t moved;
};

struct crowd_clients {
	struct crowd_world *w;
	struct mpib_client *client[CROWD_CLIENTS];
	struct mpib_listener *listener[CROWD_CLIENTS];
	struct mpib_conn **conn[CROWD_CLIENTS];
	struct crowd_talk *talk;
	void *mem;
	struct mpib_region *region;
	uint64_t mark; /* see struct crowd_talk */
	uint64_t messages;
};

void crowd_attach(struct crowd_clients *c, struct crowd_world *w,
		  const char *run_dir);
/* Connect to each node with a wrong nonce, which the node refuses. Afterwards
 * there are links but no lanes. */
void crowd_links(struct crowd_clients *c);
/* Connect `to` - `from` clients, beginning with client `from`. These clients
 * must all send, or all receive. */
void crowd_connect(struct crowd_clients *c, unsigned from, unsigned to);
/* Prepare the first client for sending. */
void crowd_talk_begin(struct crowd_clients *c);
/* Test all messages once. On each lane whose last message completed `pause_ns`
 * ago, post a new message. */
void crowd_talk_turn(struct crowd_clients *c, uint64_t pause_ns);
/* Set the mark to the time `now`, and post a message on each lane that has
 * none. After each lane has completed a message since the mark, crowd_moved()
 * returns the time of the last completion. Before that it returns 0. */
void crowd_mark(struct crowd_clients *c, uint64_t now);
uint64_t crowd_moved(const struct crowd_clients *c);

/*
 * The measured proxy. The CPU time of its threads and its memory are read from
 * the kernel, the state of its rails from its admin socket. An unanswered query
 * ends the program.
 */

struct crowd_proxy {
	pid_t pid;
	FILE *admin; /* socket */
};

/* CPU seconds since the threads began. */
struct crowd_cpu {
	double control, shards;
};

struct crowd_memory {
	/* Resident bytes; `shared` includes pages of clients. */
	double anon, shared;
};

/* Sums over all rails and lanes since the proxy started. */
struct crowd_rails {
	unsigned failovers, failbacks;
};

void crowd_proxy_open(struct crowd_proxy *p, const char *run_dir);
struct crowd_cpu crowd_cpu(const struct crowd_proxy *p);
struct crowd_memory crowd_memory(const struct crowd_proxy *p);
struct crowd_rails crowd_rails(const struct crowd_proxy *p);
/* Ask for the state of all nodes. Return the number of nodes that answered,
 * including the proxy's own. */
unsigned crowd_cluster(const struct crowd_proxy *p);

#endif
