/* SPDX-License-Identifier: Apache-2.0 */
/* Creating objects after the device of a rail failed (recovery/stop.c).
 * Tenants, regions and tables are created without the failed rail, and lanes
 * start as if the rail had just been fenced. This engine never uses the rail
 * again, and never adds the rail to existing objects. Control thread. */
#ifndef MPIB_ENGINE_RAIL_RAIL_H
#define MPIB_ENGINE_RAIL_RAIL_H

#include "engine/shard.h"

/* rail.c, at the start of the engine: if the error `rc` means that the device
 * does not answer (-EIO), mark the rail as away and return true. */
bool mpib_rail_silent(struct mpib_shard *s, unsigned r, int rc);
/* Open the shard's rails. Return 0, or -errno with a reason in `why`. */
int mpib_rails_open(struct mpib_shard *s, char *why, size_t why_len);
/* Return one bit per rail that the shard has lost. */
uint8_t mpib_shard_absent(const struct mpib_shard *s);
/* Check that the shard has a rail left. Return 0, or return -ENETDOWN and set a
 * last error. */
int mpib_shard_some_rail(const struct mpib_shard *s);
/* Handle the result rc of a verbs call that creates an object on the rail. Also
 * return 0 if the call failed because the device is gone (mpib_rail_is_gone()).
 * Then this object and all later ones are created without the rail. Otherwise
 * set a last error and return rc, or -ENETDOWN if no rail is left. */
int mpib_rail_made(struct mpib_shard *s, unsigned rail, const char *call,
		   int rc);
/* Write a text such as "SOUT (mlx5_0) and SUP at the other end". `ours` and
 * `theirs` are masks of the rails that this end and the peer have lost. Return
 * buf. */
const char *mpib_absent_say(const struct mpib_shard *s, uint8_t ours,
			    uint8_t theirs, char *buf, size_t len);

#endif
