/* SPDX-License-Identifier: Apache-2.0 */
/* The process of a node: between the ranks of this host and the hub. */
#ifndef PERF_NODE_H
#define PERF_NODE_H

#include "perf/options.h"

/*
 * Say HELLO on fd, take the test that the hub asks for, fork its ranks and
 * carry their barriers, handles, results and failures until they end. own are
 * the options of this host; what the load is comes from the hub. Closes fd.
 * Returns 0, or -errno after a line on stderr.
 */
int perf_node_run(int fd, const struct perf_options *own);

/* Write the run dir that the ranks of this host use; "" if its path is too
 * long. */
void perf_node_run_dir(const struct perf_options *own, char *buf, size_t len);

#endif
