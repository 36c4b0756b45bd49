/* SPDX-License-Identifier: Apache-2.0 */
/* What the hub tells each node to run. Each node chooses its own plugin, ABI
 * version and environment, and except in check its device. */
#ifndef PERF_SETUP_H
#define PERF_SETUP_H

#include "perf/options.h"

/* The device that the node chose itself. */
#define PERF_SETUP_OWN UINT32_MAX

struct perf_setup {
	uint32_t node, nnodes, ranks_per_node;
	uint32_t pattern, block_order, channels, inflight, sealed;
	uint32_t check, group, early, churn;
	uint32_t device, rsvd; /* PERF_SETUP_OWN, or its index */
	uint64_t min, max, factor, iters, warmup, chunk, seed;
	uint64_t random_sizes, steady_count;
	double steady_seconds, timeout;
};

void perf_setup_make(struct perf_setup *s, const struct perf_options *opt,
		     int node, uint32_t device);

/* Copy *s to *opt, checked like a command line. -EINVAL after a line on
 * stderr. */
int perf_setup_take(const struct perf_setup *s, struct perf_options *opt);

#endif
