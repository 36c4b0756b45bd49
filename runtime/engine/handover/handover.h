/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an engine hands its connections to that of another process, which goes
 * on with them over QPs, keys and mappings of its own.
 *
 * For the traffic that is the failure of all rails at once (failover.h): every
 * rail of every lane is fenced, with the other node's help, so that nothing is
 * under way any more and each end knows what the other has. What a connection then
 * is, is a matter of numbers, and is put into a serialized state. The other node keeps
 * its connections, is told where the tables and buffers of ours are now
 * (engine_conn_moved()), and both ends bring the rails back and replay.
 *
 * Control thread, all of it. While halted no shard runs, and this thread owns
 * what is theirs.
 */
#ifndef MPIB_ENGINE_HANDOVER_H
#define MPIB_ENGINE_HANDOVER_H

#include "base/serial.h"
#include "engine/engine.h"

/* Fence what is not; to be called again until mpib_engine_left(). Rails stay
 * down from now on. */
void mpib_engine_leave(struct mpib_engine *engine);
bool mpib_engine_left(const struct mpib_engine *engine);
/* Rails that are down come back, where both ends can. */
void mpib_engine_stay(struct mpib_engine *engine);
/* All connected lanes have a rail. */
bool mpib_engine_moves(const struct mpib_engine *engine);

/* Stop the shards, and let all that was on its way to and from them arrive. */
void mpib_engine_halt(struct mpib_engine *engine);
/* Start them, again or for the first time. -errno: some could not. */
int mpib_engine_run(struct mpib_engine *engine);

/* engine.c, at open: have the status segment of cfg.inherited. -errno. */
int mpib_engine_inherit(struct mpib_engine *engine);

/* Rails that an operator drained, and what the shards counted. */
void mpib_engine_serialize(struct mpib_serial *p, struct mpib_engine *engine);
/* As mpib_mr_add(), at once and with a given handle; halted. */
int mpib_mr_restore(struct engine_client *client,
		    const struct mpib_mr_attr *attr, uint32_t handle);
/* The lane, which has left, without QPs. Unpacking makes it; NULL on failure. */
void mpib_lane_serialize(struct mpib_serial *p, struct mpib_lane **lane,
			 struct mpib_tenant *tenant);
/* A started connection, whose lane has left. Unpacking makes it, its client with
 * its regions and its lane being there; NULL on failure. */
void engine_conn_serialize(struct mpib_serial *p, struct engine_conn **conn,
			   struct engine_client *client, uint32_t index,
			   bool sending, struct mpib_lane *lane);
/* counts.c, for the above: what was counted of each. */
struct mpib_shard;
void mpib_shard_counts_serialize(struct mpib_serial *p, struct mpib_shard *s);
void mpib_lane_counts_serialize(struct mpib_serial *p, struct mpib_lane *lane);
void engine_conn_counts_serialize(struct mpib_serial *p, struct engine_conn *f);
/* Whether the lane can be handed over at all, in use or not. */
bool mpib_lane_can_move(const struct mpib_lane *lane);

/* The connection's other end has other tables now, and will announce its buffers
 * again. False: no sound peer says so now. */
bool engine_conn_moved(struct engine_conn *conn,
		       const struct engine_conn_info *remote);

#endif
