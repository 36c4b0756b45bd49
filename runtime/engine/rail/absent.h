/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is made while the device of a rail is away, see lost.c: tenants, regions
 * and tables without that rail, and lanes that begin as after a fence of it. This
 * engine never has the rail again, and the one that takes over makes all of these
 * anew, so nothing is ever added to them. Control thread.
 */
#ifndef MPIB_ENGINE_ABSENT_H
#define MPIB_ENGINE_ABSENT_H

#include "engine/shard.h"

/* Bit per rail that the shard has lost. */
uint8_t mpib_shard_absent(const struct mpib_shard *s);
/* 0, or -ENETDOWN and a last error: the shard has no rail left. */
int mpib_shard_some_rail(const struct mpib_shard *s);
/* "SOUT (mlx5_0) and SUP at the other end", bits of rails. Returns buf. */
const char *mpib_absent_say(const struct mpib_engine *e, uint8_t ours,
			    uint8_t theirs, char *buf, size_t len);

#endif
