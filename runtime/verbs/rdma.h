/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RDMA devices beyond the verbs table: which there are, and which of a port's
 * addresses to use.
 */
#ifndef MPIB_VERBS_RDMA_H
#define MPIB_VERBS_RDMA_H

#include <stddef.h>
#include <stdint.h>

#include "verbs/verbs.h"

/*
 * Networks whose addresses RoCE ports prefer: "10.1.0.0/16,10.2.0.0/16", at
 * most MPIB_RDMA_NETS, or "" for no preference. -EINVAL with a reason in why.
 * For the process; before the first open. Control thread.
 */
#define MPIB_RDMA_NETS 8
int mpib_rdma_prefer_nets(const char *text, char *why, size_t why_len);

/* The names of this machine's RDMA devices, "mlx5_0, mlx5_1", or what hinders
 * the look. Any thread. */
void mpib_rdma_device_names(char *buf, size_t len);

#endif
