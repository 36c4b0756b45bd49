/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --pattern nccl: what a connection sees of NCCL. Its buffer has 8 slots, which
 * its messages take in turn; receives are posted for whole slots, and of all
 * buffers of a group; sends of a group go in another order than its receives,
 * as those of several ranks do that share a connection. A slot is checked when
 * its message has come, and free then, so checking is part of the time, as the
 * work of a GPU is.
 */
#ifndef PERF_STEPS_H
#define PERF_STEPS_H

#include "perf/batch.h"

size_t perf_steps_memory(const struct perf_options *opt);
bool perf_steps_run(struct perf_rank *r, const struct perf_batch *batch,
		    struct perf_result *res);

#endif
