/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an engine hands its connections over to the engine of another process,
 * which goes on with them over QPs, keys and mappings of its own.
 *
 * For traffic a hand-over is the failure of all rails at once (see
 * recovery/failover.h): every rail of every lane is fenced together with the
 * peer's proxy, so that nothing is in flight and each end knows what the other
 * end has. A connection is then only a set of numbers, which the serializer
 * (base/serial.h) writes and, in the new process, reads. The peer's proxy keeps
 * its connections; it is told where our tables and buffers are now
 * (engine_conn_moved()), and both ends bring the rails back and replay.
 *
 * All of it runs on the control thread. While the engine is halted no shard
 * thread runs, and the control thread owns what the shards own.
 */
#ifndef MPIB_ENGINE_HANDOVER_H
#define MPIB_ENGINE_HANDOVER_H

#include "base/serial.h"
#include "engine/engine.h"

/* Fence every rail that is not fenced yet; to be called again until
 * mpib_engine_left(). The rails stay down from now on. */
void mpib_engine_leave(struct mpib_engine *engine);
/* Whether the peer may not know yet where this process has the tables of the
 * lane's connections: they were handed over, and no QPs carried since. */
bool mpib_lane_moved(const struct mpib_lane *lane);
/* Whether every rail of the lane, or of every lane, is down. */
bool mpib_lane_left(const struct mpib_lane *lane);
bool mpib_engine_left(const struct mpib_engine *engine);
/* Bring the rails back that are down: in the new process after the hand-over,
 * or in the old one if the hand-over failed. */
void mpib_engine_stay(struct mpib_engine *engine);
/* Whether every connected lane has a live rail. */
bool mpib_engine_moves(const struct mpib_engine *engine);

/* Stop the shard threads, then run every message that is still in a mailbox
 * to or from a shard. */
void mpib_engine_halt(struct mpib_engine *engine);
/* Make the shard threads, which wait for mpib_engine_run(): then that does not fail.
 * -errno: one or more could not be made. */
int mpib_engine_ready(struct mpib_engine *engine);
/* Start the shard threads, again or for the first time. -errno: one or more
 * could not be started. */
int mpib_engine_run(struct mpib_engine *engine);

/* engine.c, at open: map the status segment of cfg.inherited. -errno. */
int mpib_engine_inherit(struct mpib_engine *engine);

/*
 * The ..._serialize() functions write (p->packing, old process) or read (new
 * process), with the engine halted.
 */
/* The rails that an operator drained, and of the shards the counters and which id of a
 * connection is next. */
void mpib_engine_serialize(struct mpib_serial *p, struct mpib_engine *engine);
/* Like mpib_mr_add(), but at once and with a given handle; engine halted. An addr of
 * NULL and no dma-buf: no rail knows it, what uses it fails. */
int mpib_mr_restore(struct engine_client *client,
		    const struct mpib_mr_attr *attr, uint32_t handle);
/* Which handle the client was given last: its rings may name those before. */
void mpib_mrs_serialize(struct mpib_serial *p, struct engine_client *client);
/* A lane whose rails are all down, without its QPs. Reading makes the lane;
 * *lane is NULL on failure. */
void mpib_lane_serialize(struct mpib_serial *p, struct mpib_lane **lane,
			 struct mpib_tenant *tenant);
/* A started connection of a lane whose rails are all down. Reading makes the
 * connection; its lane and its client with its regions must exist by then.
 * *conn is NULL on failure. */
void engine_conn_serialize(struct mpib_serial *p, struct engine_conn **conn,
			   struct engine_client *client, uint32_t index,
			   bool sending, struct mpib_lane *lane);
/* place.c: a region that the connection holds a reference to, or NULL, and the
 * address of len bytes in it; and a receiver's flushes. */
struct mpib_mr;
void mpib_place_serialize(struct mpib_serial *p, struct engine_conn *f,
			  struct mpib_mr **mr, uint64_t *addr, uint32_t len);
void mpib_flushes_serialize(struct mpib_serial *p, struct engine_conn *f);
/* counts.c: the counters of a shard, a lane and a connection, for the functions
 * above. */
struct mpib_shard;
void mpib_shard_counts_serialize(struct mpib_serial *p, struct mpib_shard *s);
void mpib_lane_counts_serialize(struct mpib_serial *p, struct mpib_lane *lane);
void engine_conn_counts_serialize(struct mpib_serial *p, struct engine_conn *f);
/* Whether the lane can be handed over, whether or not it is in use. */
bool mpib_lane_can_move(const struct mpib_lane *lane);

/* The peer was handed over: its end of the connection has new tables, and will
 * send its CTS again. False: no sound peer says so now. */
bool engine_conn_moved(struct engine_conn *conn,
		       const struct engine_conn_info *remote);

#endif
