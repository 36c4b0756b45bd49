/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine linked into the program that uses it: no proxy, no control socket,
 * no peer link. The program plays the client, pushing descriptors and reading
 * completion words as the client library does, and hands what the peer must
 * know over in memory both can see. Two nodes may be two processes or one.
 *
 * Calls die with a message; a bench has nobody to tell.
 */
#ifndef BENCH_RIG_H
#define BENCH_RIG_H

#include <mpib/segment.h>
#include <stdatomic.h>

#include "engine/engine.h"

#define RIG_FLOWS 1024 /* pairs of connections, one each way */

/* What the other node must know, written once each and then published. */
struct rig_card {
	struct mpib_lane_info lane;
	struct engine_conn_info conn[2 * RIG_FLOWS];
	_Atomic int said; /* how much of it there is */
};

/* One end of a connection. */
struct rig_end {
	struct rig_node *node;
	struct engine_conn *conn;
	struct mpib_producer ring;
	const struct mpib_completion *completion;
	uint32_t index;
	uint32_t gen[MPIB_REQUESTS]; /* of the last post, by request */
	uint32_t next_gen;
};

struct rig_node {
	unsigned me; /* 0 or 1 */
	unsigned conns;
	enum mpib_path path; /* to the other one */
	bool threaded; /* the shard has a thread, else rig_turn() drives it */
	struct mpib_engine *engine;
	struct mpib_tenant *tenant;
	struct engine_client *engine_client;
	struct mpib_submit *submit;
	struct mpib_reply *reply;
	struct mpib_lane *lane;
	char *mem;
	uint32_t mr;
	struct rig_card *mine, *theirs;
	struct rig_end tx[RIG_FLOWS], rx[RIG_FLOWS];
};

/* net: "127.44", the node's rails are NET.0.(me+1) and NET.1.(me+1). The pairs
 * of connections are made by rig_connect(), in steps that both nodes take in
 * turn, so that one process can play both. */
void rig_open(struct rig_node *n, unsigned me, const char *net, bool threaded,
	      unsigned conns, size_t mem, struct rig_card cards[2]);
/* The same, with its settings but for the rails, and where it sees the other
 * node. */
void rig_open_as(struct rig_node *n, unsigned me, const char *net,
		 bool threaded, unsigned conns, size_t mem,
		 struct rig_card cards[2], const struct mpib_engine_config *cfg,
		 enum mpib_path path);
/* One step; false when the node is connected. */
bool rig_connect(struct rig_node *n);
void rig_close(struct rig_node *n);

/* Shard and control thread, where the caller is both; how much moved. */
int rig_turn(struct rig_node *n);

void rig_post(struct rig_end *e, enum mpib_op op, unsigned req, uint64_t off,
	      uint32_t len);
/* Whether the last post of req is over; dies when it failed. */
bool rig_done(const struct rig_end *e, unsigned req);

#endif
