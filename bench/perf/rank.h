/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of the ranks of this host. */
#ifndef PERF_RANK_H
#define PERF_RANK_H

#include "perf/world.h"

/* Fork the ranks of w's node, or of all nodes. Returns 0, or -EAGAIN after a
 * line on stderr; some ranks may run then. */
int perf_ranks_start(struct perf_world *w);

/* Kill the ranks that still run. */
void perf_ranks_kill(void);

/* Collect ranks that ended; if `all` is true, wait until all have ended. If the
 * status of a rank is not 0, report that by perf_world_fail(). Returns how many
 * still run. */
int perf_ranks_reap(struct perf_world *w, bool all);

#endif
