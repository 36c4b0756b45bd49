/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of the ranks of this host. */
#ifndef PERF_RANK_H
#define PERF_RANK_H

#include "perf/world.h"

/* Fork the ranks of w's node, or of all. -EAGAIN after a line on stderr; some
 * may run then. */
int perf_ranks_start(struct perf_world *w);

/* Kill those that are left. */
void perf_ranks_kill(void);

/* Look for ranks that ended, waiting until all did if `all`. One that did not
 * end with 0 is reported by perf_world_fail(). Returns how many still run. */
int perf_ranks_reap(struct perf_world *w, bool all);

#endif
