/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clients of the proxy that is measured. Client k has connection i with
 * node i; the first CROWD_SENDERS clients send, the others receive. One thread.
 * A call that fails ends the program.
 */
#ifndef BENCH_CROWD_CLIENTS_H
#define BENCH_CROWD_CLIENTS_H

#include <mpib/client.h>

#include "crowd/crowd.h"

/* A lane, and the first client's connection on it with one outstanding
 * message. */
struct crowd_talk {
	struct mpib_request *req; /* NULL: none */
	uint64_t posted, over; /* when, of the last message, ns */
	uint64_t moved; /* end of the first message posted after mark, 0: not
			   yet */
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
/* Connect to each node with the boot id of another boot. Each link detects
 * that, so afterwards the nodes have links and no lanes. */
void crowd_links(struct crowd_clients *c);
/* Connect the clients from to to - 1, all of which send or receive. */
void crowd_connect(struct crowd_clients *c, unsigned from, unsigned to);
/* The first client is about to send. */
void crowd_talk_begin(struct crowd_clients *c);
/* Test all messages once, and post a new one where the last completed pause_ns
 * ago. */
void crowd_talk_turn(struct crowd_clients *c, uint64_t pause_ns);
/* Start to watch whether messages of all lanes move. Posts a message on each
 * lane without one. crowd_moved() returns when the last of all lanes had moved
 * one, 0 before that. */
void crowd_mark(struct crowd_clients *c, uint64_t now);
uint64_t crowd_moved(const struct crowd_clients *c);

#endif
