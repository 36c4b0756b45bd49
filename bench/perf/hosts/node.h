/* SPDX-License-Identifier: Apache-2.0 */
/* The process of a node: between the ranks of this host and the hub. */
#ifndef PERF_NODE_H
#define PERF_NODE_H

#include "perf/options.h"

/*
 * Send HELLO on fd, receive the test from the hub, fork its ranks and relay
 * their barriers, handles, results and failures until they end. own are the
 * options of this host; the hub sets the load. Closes fd. Returns 0, or -errno
 * after a line on stderr.
 */
int perf_node_run(int fd, const struct perf_options *own);

/* Write the run dir that the ranks of this host use; "" if its path is too
 * long. */
void perf_node_run_dir(const struct perf_options *own, char *buf, size_t len);

#endif
