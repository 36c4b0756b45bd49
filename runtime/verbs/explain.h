/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A failed verbs call in words.
 */
#ifndef MPIB_VERBS_EXPLAIN_H
#define MPIB_VERBS_EXPLAIN_H

#include <stddef.h>

#include "verbs/verbs.h"

/*
 * "rdma:mlx5_0:1: ibv_create_cq: Cannot allocate memory (RLIMIT_MEMLOCK is
 * 8192 KiB: give the proxy LimitMEMLOCK=infinity)" into why: device, call,
 * errno, and what is usually behind it with its remedy, where that is known.
 * call is libibverbs' name for it, also of the software HCA; rc is -errno, where
 * -ENETDOWN says that call names a port's state. Any thread.
 */
void mpib_verbs_explain(const struct mpib_rail_spec *spec, const char *call,
			int rc, char *why, size_t why_len);

#endif
