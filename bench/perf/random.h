/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of random sizes into receives of the maximum size. Each is checked
 * when it arrives, within the timed part: its size, its data, and that the
 * bytes after it are unchanged.
 */
#ifndef PERF_RANDOM_H
#define PERF_RANDOM_H

#include "perf/batch.h"

size_t perf_random_memory(const struct perf_options *opt);
bool perf_random_run(struct perf_rank *r, const struct perf_batch *batch,
		     struct perf_result *res);

#endif
