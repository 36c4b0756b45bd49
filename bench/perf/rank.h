/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a rank. Each reports its own failure by perf_world_fail(). */
#ifndef PERF_RANK_H
#define PERF_RANK_H

#include "perf/pattern.h"

/* True if res is success; otherwise report the failed call. */
/* Return the device for a connection of the rank. */
int perf_rank_device(const struct perf_rank *r, int peer, int channel);
bool perf_rank_check(struct perf_rank *r, const char *call,
		     enum nccl_result res);

/* connect.c: create the rank's streams and connect all of them. The caller
 * frees the list of streams. */
bool perf_rank_connect(struct perf_rank *r);
/* memory.c: allocate and register a buffer for each stream. */
bool perf_rank_register(struct perf_rank *r);

#endif
