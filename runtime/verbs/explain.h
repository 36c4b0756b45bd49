/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error messages for failed verbs calls, and names of values.
 */
#ifndef MPIB_VERBS_EXPLAIN_H
#define MPIB_VERBS_EXPLAIN_H

#include <stddef.h>

#include "verbs/verbs.h"

/*
 * Write a message such as "rdma:mlx5_0:1: ibv_create_cq: Cannot allocate memory
 * (RLIMIT_MEMLOCK is 8192 KiB: give the proxy LimitMEMLOCK=infinity)" to `why`:
 * device, call, errno and, if known, the usual cause and its remedy. `call` is
 * the function's name in libibverbs, also for the software HCA. `rc` is -errno.
 * `most` contains the device's limits, or is NULL. With `most`, the message
 * also names the limit that the call may have exceeded. Any thread.
 */
void mpib_verbs_explain(const struct mpib_rail_spec *spec,
			const struct ibv_device_attr *most, const char *call,
			int rc, char *why, size_t why_len);

/* Name an IBV_LINK_LAYER_*. Any thread. */
const char *mpib_link_layer_name(uint8_t link_layer);

#endif
