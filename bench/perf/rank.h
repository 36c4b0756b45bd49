/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a rank, each of which says itself why it failed. */
#ifndef PERF_RANK_H
#define PERF_RANK_H

#include "perf/pattern.h"

/* True when the plugin's call went well. */
bool perf_rank_check(struct perf_rank *r, const char *call,
		     enum nccl_result res);

/* connect.c: make its streams, and have all of them connected. The list is the
 * caller's to free. */
bool perf_rank_connect(struct perf_rank *r);
/* memory.c: a registered buffer for each. */
bool perf_rank_register(struct perf_rank *r);

#endif
