/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two nodes' engines linked into a benchmark, without a proxy, a control socket
 * or a peer link. The benchmark makes the turns of both engines and acts as the
 * client: it pushes descriptors and reads completion words like the client
 * library.
 *
 * On an error, calls print a line and end the program.
 */
#ifndef BENCH_RIG_H
#define BENCH_RIG_H

#include <mpib/segment.h>

#include "engine/engine.h"

/* Maximum number of pairs; a pair is a connection each way. */
#define RIG_CONNS 1024
#define RIG_USERS 16

/* One end of a connection. */
struct rig_end {
	struct rig_node *node;
	struct rig_user *user;
	struct engine_conn *conn;
	struct mpib_producer ring;
	const struct mpib_completion *completion;
	uint32_t index; /* index among the user's connections */
	uint32_t gen[MPIB_REQUESTS]; /* last generation of each request */
	uint32_t next_gen;
};

/* A user of a node: a tenant with one client and one lane. */
struct rig_user {
	struct mpib_tenant *tenant;
	struct engine_client *engine_client;
	struct mpib_submit *submit;
	struct mpib_reply *reply;
	struct mpib_lane *lane;
	uint32_t mr;
};

struct rig_node {
	unsigned me; /* 0 or 1 */
	unsigned conns, users; /* the users share the pairs equally */
	bool threaded; /* the shard has a thread, which a doorbell wakes */
	struct mpib_engine *engine;
	struct rig_user user[RIG_USERS];
	int bell;
	char *mem; /* memory of the node; each user registers it as a region */
	struct rig_end tx[RIG_CONNS], rx[RIG_CONNS];
};

/* Open the engines of both nodes. There are `conns` pairs of connections, and
 * each user has `conns` / `users` of them. `net` has two numbers, such as
 * "127.44": the rails of node n are 127.44.0.(n+1) and 127.44.1.(n+1). All
 * other settings are those of `cfg`. The caller zeroes the nodes. */
void rig_open(struct rig_node node[2], const char *net, unsigned users,
	      unsigned conns, size_t mem, const struct mpib_engine_config *cfg);

void rig_post(struct rig_end *e, enum mpib_op op, unsigned req, uint64_t off,
	      uint32_t len);
/* Return whether the last post of request `req` has completed. If the request
 * failed, end the program. */
bool rig_done(const struct rig_end *e, unsigned req);

#endif
