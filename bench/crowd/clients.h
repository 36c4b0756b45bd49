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

/* A lane with the first client's connection on it, which has one message under
 * way. */
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
/* Connect to each node as of another boot, which each link finds out:
 * afterwards there are links and no lanes. */
void crowd_links(struct crowd_clients *c);
/* Connect the clients from to to - 1, all of which send or receive. */
void crowd_connect(struct crowd_clients *c, unsigned from, unsigned to);
/* The first client is about to send. */
void crowd_talk_begin(struct crowd_clients *c);
/* Look at all messages once, and post new ones where the last is over for
 * pause_ns. */
void crowd_talk_turn(struct crowd_clients *c, uint64_t pause_ns);
/* A time from which on it counts whether messages of all lanes move. Posts one
 * on each lane that has none. crowd_moved() is when the last of all lanes did,
 * 0 before that. */
void crowd_mark(struct crowd_clients *c, uint64_t now);
uint64_t crowd_moved(const struct crowd_clients *c);

#endif
