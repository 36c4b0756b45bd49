/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is made while the device of a rail is away, see lost.c: tenants, regions
 * and tables without that rail, and lanes that begin as after a fence of it. This
 * engine never has the rail again, and the one that takes over makes all of these
 * anew, so nothing is ever added to them. Control thread.
 */
#ifndef MPIB_ENGINE_AWAY_H
#define MPIB_ENGINE_AWAY_H

#include "engine/lane/lane.h"

/* Bit per rail that the shard has lost. */
uint8_t mpib_shard_away(const struct mpib_shard *s);
/* 0, or -ENETDOWN and a trouble: the shard has no rail left. */
int mpib_shard_some_rail(const struct mpib_shard *s);

/*
 * Rails that the shard has lost, and those of theirs, that the other end has, are
 * left out of a lane that is not connected. -ENETDOWN and a trouble where it cannot
 * go without: it has no other rail, or no fail-over.
 */
int mpib_lane_leave_out(struct mpib_lane *lane, uint8_t theirs);

#endif
