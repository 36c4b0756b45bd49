/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of the ranks of this host. */
#ifndef PERF_RANK_H
#define PERF_RANK_H

#include "perf/world.h"

/* Fork the ranks of the node of `w`, or of all nodes. Returns 0, or -EAGAIN
 * after a line on stderr. After an error some ranks may still run. */
int perf_ranks_start(struct perf_world *w);

/* Kill the ranks that still run. */
void perf_ranks_kill(void);

/* Collect the exit status of ranks that ended. If `all` is true, wait until all
 * have ended. If a status is not 0, call perf_world_fail(). Returns the number
 * of ranks that still run. */
int perf_ranks_reap(struct perf_world *w, bool all);

#endif
