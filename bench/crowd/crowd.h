/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many nodes for one proxy: a process that plays the other nodes of a cluster
 * (nodes.c), and one that is the clients of the proxy that is measured
 * (clients.c), asks the proxy (proxy.c) and measures (main.c). Played are only
 * the nodes' clients: brokers, engine and software rails are mpib's own. All
 * nodes have one engine, since an HCA in software for each would cost more than
 * what is measured.
 */
#ifndef BENCH_CROWD_H
#define BENCH_CROWD_H

#include <mpib/client.h>
#include <mpib/control.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/types.h>

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

/*
 * The clients: client k has connection i with node i; the first CROWD_SENDERS
 * clients send, the others receive. One thread. A call that fails ends the
 * program.
 */

/* A lane with the first client's connection on it, which has one message under
 * way. */
struct crowd_talk {
	struct mpib_request *req; /* NULL: none */
	uint64_t posted, over; /* when, of the last message, ns */
	uint64_t moved; /* end of the first message after mark, 0: not yet */
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
/* Connect to each node as of another boot, which each link finds out:
 * afterwards there are links and no lanes. */
void crowd_links(struct crowd_clients *c);
/* Connect the clients from to to - 1, all of which send or receive. */
void crowd_connect(struct crowd_clients *c, unsigned from, unsigned to);
/* The first client is about to send. */
void crowd_talk_begin(struct crowd_clients *c);
/* Look at all messages once, and post new ones if the last has been complete for
 * pause_ns. */
void crowd_talk_turn(struct crowd_clients *c, uint64_t pause_ns);
/* A time from which on it counts whether messages of all lanes move. Posts one
 * on each lane that has none. crowd_moved() is when the last of all lanes did,
 * 0 before that. */
void crowd_mark(struct crowd_clients *c, uint64_t now);
uint64_t crowd_moved(const struct crowd_clients *c);

/*
 * The proxy that is measured: its threads' CPU time and its memory of the
 * kernel, its rails of its admin socket. A question without an answer ends the
 * program.
 */

struct crowd_proxy {
	pid_t pid;
	FILE *admin; /* socket */
};

/* Seconds since the threads began. */
struct crowd_cpu {
	double control, shards;
};

struct crowd_memory {
	/* Resident bytes; shared has clients' pages, too. */
	double anon, shared;
};

/* The sum over the lanes of all rails, since the proxy started. */
struct crowd_rails {
	unsigned failovers, failbacks;
};

void crowd_proxy_open(struct crowd_proxy *p, const char *run_dir);
struct crowd_cpu crowd_cpu(const struct crowd_proxy *p);
struct crowd_memory crowd_memory(const struct crowd_proxy *p);
/* A command of mpibctl; dies unless it is obeyed. */
void crowd_order(const struct crowd_proxy *p, const char *command);
struct crowd_rails crowd_rails(const struct crowd_proxy *p);
/* Ask how all nodes are. How many answered, its own among them. */
unsigned crowd_cluster(const struct crowd_proxy *p);

#endif
