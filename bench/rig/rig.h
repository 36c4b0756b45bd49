/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine linked into a benchmark: no proxy, no control socket, no peer link.
 * The benchmark plays the client: it pushes descriptors and reads completion
 * words like the client library. What a peer link would carry goes through
 * memory that both nodes share. The two nodes may be two processes or one.
 *
 * On an error, calls print a line and end the program.
 */
#ifndef BENCH_RIG_H
#define BENCH_RIG_H

#include <mpib/segment.h>
#include <stdatomic.h>

#include "engine/engine.h"

#define RIG_CONNS 1024 /* pairs of connections, one each way */
#define RIG_USERS 16

/* What one node tells the other. Each member is written once and then published
 * by `said`. */
struct rig_card {
	struct mpib_lane_info lane[RIG_USERS];
	struct engine_conn_info conn[2 * RIG_CONNS]; /* by pair */
	_Atomic int said; /* how much is published, see rig.c */
};

/* One end of a connection. */
struct rig_end {
	struct rig_node *node;
	struct rig_user *user;
	struct engine_conn *conn;
	struct mpib_producer ring;
	const struct mpib_completion *completion;
	uint32_t index; /* of the user's connections */
	uint32_t gen[MPIB_REQUESTS]; /* last generation, by request */
	uint32_t next_gen;
};

/* A user of a node: a tenant with one client, on a lane of its own. */
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
	unsigned conns, users; /* the pairs are dealt out to the users */
	enum mpib_path path; /* to the other node */
	bool threaded; /* the shard has a thread, else rig_turn() drives it */
	struct mpib_engine *engine;
	struct rig_user user[RIG_USERS];
	int bell;
	char *mem; /* a region of each user */
	struct rig_card *mine, *theirs;
	struct rig_end tx[RIG_CONNS], rx[RIG_CONNS];
};

/* Open a node's engine. net is "127.44"; the rails are NET.0.(me+1) and
 * NET.1.(me+1). rig_connect() then makes the pairs of connections, in steps
 * that both nodes take in turn, so that one process can play both. */
void rig_open(struct rig_node *n, unsigned me, const char *net, bool threaded,
	      unsigned conns, size_t mem, struct rig_card cards[2]);
/* Like rig_open(), with settings from cfg (all but the rails), and with path
 * for whether the other node is in the same island. */
void rig_open_as(struct rig_node *n, unsigned me, const char *net,
		 bool threaded, unsigned conns, size_t mem,
		 struct rig_card cards[2], const struct mpib_engine_config *cfg,
		 enum mpib_path path);
/* The same for several users, who have conns / users pairs each. */
void rig_open_users(struct rig_node *n, unsigned me, const char *net,
		    unsigned users, unsigned conns, size_t mem,
		    struct rig_card cards[2],
		    const struct mpib_engine_config *cfg);
/* Take one step if the other node is ready for it. False when connected. */
bool rig_connect(struct rig_node *n);
void rig_close(struct rig_node *n);

/* One turn of shard and control thread, unless n is threaded. Returns how much
 * was done. */
int rig_turn(struct rig_node *n);

void rig_post(struct rig_end *e, enum mpib_op op, unsigned req, uint64_t off,
	      uint32_t len);
/* Return whether the last post of req has completed; ends the program if it
 * failed. */
bool rig_done(const struct rig_end *e, unsigned req);

#endif
