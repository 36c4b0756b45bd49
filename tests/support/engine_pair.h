/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two engines in one process and a lane between them. The test acts as the
 * clients: it pushes descriptors and reads completion words as the client
 * library does. The test also calls the turns of the shards one by one, so that
 * the result does not depend on timing.
 */
#ifndef MPIB_TESTS_ENGINE_PAIR_H
#define MPIB_TESTS_ENGINE_PAIR_H

#include <mpib/segment.h>
#include <mpib/wire.h>

#include "engine/engine.h"
#include "engine/measure/snapshot.h"
#include "engine/shard.h"
#include "test.h"

/* One end of a connection. */
struct pair_end {
	struct engine_conn *conn;
	struct mpib_producer ring;
	struct mpib_reply *reply;
	struct mpib_submit *submit;
	uint32_t index;
	uint32_t gen;
};

struct pair_node {
	struct mpib_engine *engine;
	struct mpib_tenant *tenant;
	struct engine_client *engine_client;
	struct mpib_submit *submit;
	struct mpib_reply *reply;
	struct mpib_lane *lane;
	char *mem; /* PAIR_MEM bytes, registered as region `mr` */
	uint32_t mr;
	unsigned broken; /* number of conn_broken events */
	unsigned lanes_broken;
	char why[200];
};

#define PAIR_MEM (16u << 20)
/* Number of a connection's first receive. This is the highest number, so that
 * the counter of receives wraps after the first receive. */
#define PAIR_FIRST UINT32_MAX
#define PAIR_RX (PAIR_MEM / 2) /* offset of receive buffers in `mem` */

struct pair {
	struct pair_node node[2];
	struct mpib_engine_config cfg;
	enum mpib_path path;
	/* for each node, the index of the shard on which the client and the
	 * lane are */
	unsigned shard[2];
	bool fences; /* set by pair_fences() */
};

/* Open both engines with `cfg`, and set their rails and addresses. `path` says
 * whether the nodes are in the same island. */
void pair_open_on(struct pair *p, const struct mpib_engine_config *cfg,
		  uint8_t imm_version, enum mpib_path path);
static inline void pair_open(struct pair *p,
			     const struct mpib_engine_config *cfg,
			     uint8_t imm_version)
{
	pair_open_on(p, cfg, imm_version, MPIB_PATH_UNKNOWN);
}
void pair_close(struct pair *p);
extern struct pair *pair_opened; /* the open pair, or NULL */
/* Close the last opened pair, as a teardown for cmocka. */
static inline int pair_teardown(void **state)
{
	if (pair_opened)
		pair_close(pair_opened);
	return 0;
}
#define pair_test(f) TEST_OF(f, NULL, pair_teardown)
/* Add a tenant to the engines of `p`. The tenant has a client on shard `a` of
 * the first engine, one on shard `b` of the second, and a lane between the
 * devices of these shards. Use `more` in the same way as `p`. Call
 * pair_leave(more) after pair_close(p). */
void pair_join_on(struct pair *p, struct pair *more, uid_t uid, unsigned a,
		  unsigned b);
static inline void pair_join(struct pair *p, struct pair *more, uid_t uid)
{
	pair_join_on(p, more, uid, 0, 0);
}
void pair_leave(struct pair *more);
/* Add another lane between the nodes for the tenant of `p`. After this call,
 * `more` has the same clients as `p` and the new lane. */
void pair_more_lane(const struct pair *p, struct pair *more);
/* Call pair_open() with `sup_bw` as SUP's share, and connect node 0 to node
 * 1. */
void pair_open_at(struct pair *p, uint32_t sup_bw, uint8_t imm_version,
		  struct pair_end *tx, struct pair_end *rx);

/* Turn on fail-over: both ends of the lane fence a failed rail and reconnect
 * it. After this call, pair_turn() also delivers the rail messages of both
 * ends. */
void pair_fences(struct pair *p);

/* Make a few turns of both nodes' shards and control threads. Return 0 if there
 * was nothing to do. */
int pair_turn(struct pair *p);
void pair_turns(struct pair *p, unsigned n);
/* Make a turn of node 0. At node 1, make only a turn of the devices of the
 * first shard. */
void pair_turn_sender(struct pair *p);
/* Make turns until *`flag` is set. If it is not set after many turns, fail the
 * test. */
void pair_until(struct pair *p, const bool *flag);
/* The `done` callback for engine calls that must succeed. Set the bool at
 * `arg`. */
static inline void pair_set_flag(void *arg, int status)
{
	assert_int_equal(status, 0);
	*(bool *)arg = true;
}

/* Create one end of connection number `index` at a node, without starting
 * it. */
void pair_make_end(struct pair *p, unsigned node, uint32_t index, bool sender,
		   struct pair_end *e);
/* Create connection number `index` from node `from` to the other node. */
void pair_connect(struct pair *p, uint32_t index, unsigned from,
		  struct pair_end *tx, struct pair_end *rx);

/* Push one descriptor. Return the generation of its request. */
uint32_t pair_post(struct pair_end *e, enum mpib_op op, uint8_t req,
		   uint32_t mr, uint64_t off, uint32_t len, int32_t tag);
void pair_push(struct pair_end *e, const struct mpib_desc *d);
/* Push a receive of `n` adjacent buffers of `len` bytes each. The first buffer
 * has offset `off` and tag `tag`, and later buffers have the next tags. Return
 * the generation of the request. */
uint32_t pair_post_group(struct pair_end *e, uint8_t req, uint8_t n,
			 uint32_t mr, uint64_t off, uint32_t len, int32_t tag);
const struct mpib_completion *pair_completion(const struct pair_end *e,
					      uint8_t req);
/* Make turns until a request completes. Return its result. */
int32_t pair_wait(struct pair *p, struct pair_end *e, uint8_t req,
		  uint32_t gen);
/* Push flush number `gen` of the connection, which flushes one byte.
 * pair_flushed() returns the number of the last completed flush. */
void pair_flush(struct pair_end *e, uint32_t mr, uint64_t off, uint32_t gen);
static inline uint32_t pair_flushed(const struct pair_end *e)
{
	return atomic_load(&e->reply->conn[e->index].flushed);
}
/* Register more memory for a node's client. Return the region. */
uint32_t pair_add_memory(struct pair *p, unsigned node, void *mem, size_t len);
/* Register device memory of `len` bytes at a node. If `map` is not NULL, set
 * *`map` to the memory as a GPU would see it. Return the region. */
uint32_t pair_add_device(struct pair *p, unsigned node, size_t len, char **map);
/* Fill `p` with `len` bytes that depend on their offset and on `seed`. */
void pair_fill(char *p, size_t len, unsigned seed);
/* Fill `len` bytes by pair_fill(), and send them as a message into a buffer of
 * `room` bytes. Check the whole buffer. */
void pair_transfer(struct pair *p, struct pair_end *tx, struct pair_end *rx,
		   uint8_t req, uint32_t len, uint32_t room, unsigned seed);
/* Return a snapshot of a node. The caller frees it. */
struct mpib_snapshot *pair_snapshot(struct pair *p, unsigned node);

#endif
