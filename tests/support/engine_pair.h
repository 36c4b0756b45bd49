/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two engines in one process, a lane between them, and clients played by the
 * test: it pushes descriptors and reads completions as the client library
 * would. Shards are driven by hand, so no test depends on time.
 */
#ifndef MPIB_TESTS_ENGINE_PAIR_H
#define MPIB_TESTS_ENGINE_PAIR_H

#include <mpib/segment.h>
#include <mpib/wire.h>

#include "engine/engine.h"
#include "engine/measure/snapshot.h"
#include "engine/shard.h"

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
	char *mem; /* PAIR_MEM bytes, region mr */
	uint32_t mr;
	unsigned broken; /* flow_broken calls */
	unsigned lanes_broken;
	char why[200];
};

#define PAIR_MEM (16u << 20)
#define PAIR_RX (PAIR_MEM / 2) /* where receives lie in a node's memory */

struct pair {
	struct pair_node node[2];
	struct mpib_engine_config cfg;
	enum mpib_path path;
};

/* cfg: rails and addresses are filled in here. */
void pair_open(struct pair *p, const struct mpib_engine_config *cfg,
	       uint8_t imm_version);
/* The same, with both ends seeing the other where path says. */
void pair_open_on(struct pair *p, const struct mpib_engine_config *cfg,
		  uint8_t imm_version, enum mpib_path path);
void pair_close(struct pair *p);
/* Another tenant of the same engines, with a client of its own on each and a
 * lane between them; more is used as p is. It leaves after p is closed. */
void pair_join(struct pair *p, struct pair *more, uid_t uid);
void pair_leave(struct pair *more);
/* With this share for SUP, and a connection from node 0 to node 1. */
void pair_open_at(struct pair *p, uint32_t sup_bw, uint8_t imm_version,
		  struct pair_end *tx, struct pair_end *rx);

/* A few turns of both nodes and their control threads; what moved. */
int pair_turn(struct pair *p);
/* Turns until *flag, failing the test after many. */
void pair_until(struct pair *p, const bool *flag);

/* Connection at index from node 0 to node 1 (or back). */
void pair_connect(struct pair *p, uint32_t index, unsigned from,
		  struct pair_end *tx, struct pair_end *rx);

/* One whole descriptor; returns the request's generation. */
uint32_t pair_post(struct pair_end *e, enum mpib_op op, uint8_t req,
		   uint32_t mr, uint64_t off, uint32_t len, int32_t tag);
void pair_push(struct pair_end *e, const struct mpib_desc *d);
const struct mpib_completion *pair_completion(const struct pair_end *e,
					      uint8_t req);
/* Result of a request, turning until it is over. */
int32_t pair_wait(struct pair *p, struct pair_end *e, uint8_t req,
		  uint32_t gen);
/* Bytes that depend on their place and on seed. */
void pair_fill(char *p, size_t len, unsigned seed);
/* One message of len bytes into a buffer of room bytes, checked whole; its
 * bytes are those of pair_fill(). */
void pair_transfer(struct pair *p, struct pair_end *tx, struct pair_end *rx,
		   uint8_t req, uint32_t len, uint32_t room, unsigned seed);
/* Counters of a node; the caller frees. */
struct mpib_snapshot *pair_snapshot(struct pair *p, unsigned node);

#endif
