/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of the ranks of this host. */
#ifndef PERF_RANKS_H
#define PERF_RANKS_H

#include "perf/world.h"

/* Fork the ranks of w's node, or of all. -EAGAIN after a line on stderr; some
 * may run then. */
int perf_ranks_start(struct perf_world *w);

/* Kill the remaining ranks. */
void perf_ranks_kill(void);

/* Reap ranks that ended; with `all` wait until all did. Reports a rank that did
 * not end with 0 by perf_world_fail(). Returns how many still run. */
int perf_ranks_reap(struct perf_world *w, bool all);

#endif
