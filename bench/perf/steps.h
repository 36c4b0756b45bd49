/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --pattern nccl: the requests that NCCL makes on a connection. A buffer has 8
 * slots, which messages use in turn. A receive is posted for whole slots, and
 * for all buffers of a group at once. The sends of a group are in another order
 * than its receives, as when several ranks share a connection. A slot is
 * checked when its message has arrived, and only then is free again, so the
 * time includes checking, like the work of a GPU.
 */
#ifndef PERF_STEPS_H
#define PERF_STEPS_H

#include "perf/batch.h"

size_t perf_steps_memory(const struct perf_options *opt);
bool perf_steps_run(struct perf_rank *r, const struct perf_batch *batch,
		    struct perf_result *res);

#endif
