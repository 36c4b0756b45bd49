/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_PROXY_RAILS_DESCRIBE_H
#define MPIB_PROXY_RAILS_DESCRIBE_H

#include "verbs/verbs.h"

/*
 * Describe a rail's port in one line for the log: "rail SOUT rdma:mlx5_0:1:
 * active, InfiniBand, 400 Gb/s, MTU 4096, LID 12, GID 0 fe80::1, NUMA node 1".
 */
void mpib_rail_describe(const char *label, const char *name,
			const struct mpib_port_info *port, char *buf,
			size_t len);

#endif
