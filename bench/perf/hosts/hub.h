/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hub of a test over several hosts: it sends the nodes the test to run,
 * synchronizes their ranks at barriers, distributes handles and collects the
 * results. One thread, which polls the links.
 */
#ifndef PERF_HUB_H
#define PERF_HUB_H

#include "perf/hosts/link.h"
#include "perf/world.h"

struct perf_hub_node {
	int fd; /* -1: none yet */
	struct perf_hello hello;
	struct perf_info info;
	struct perf_arrive arrive;
	struct perf_rails rails; /* when it said BYE */
	bool arrived, bye;
};

struct perf_hub {
	struct perf_world *w; /* results of all ranks; node -1 */
	struct perf_hub_node *node;
	int n;
	int barriers; /* passed by all */
	int reported; /* rows */
	bool quiet; /* no report while it runs */
	uint32_t device; /* of the nodes; PERF_SETUP_OWN at first */
	struct perf_handle_msg *handle; /* until they are distributed */
	size_t nhandle, room;
};

/* For opt->nnodes nodes. NULL after a line on stderr. */
struct perf_hub *perf_hub_new(const struct perf_options *opt);
void perf_hub_free(struct perf_hub *h);

/* Wait for HELLO on fd, and close fd if it is not from a node of this job. fd
 * then belongs to node i, or to the launcher's rank that it names if i is -1.
 * Returns the node, or -errno after a line on stderr. */
int perf_hub_greet(struct perf_hub *h, int fd, int i);

/* Run the test with all nodes greeted. 0, or -errno after a line on stderr. */
int perf_hub_run(struct perf_hub *h);

/* End a steady run early; its results so far are then reported. Returns whether
 * this was a steady run and the first call. Async-signal-safe. */
static inline bool perf_hub_enough(struct perf_hub *h)
{
	return h->w->opt.steady_seconds > 0 &&
	       !atomic_exchange(&h->w->enough, true);
}

#endif
