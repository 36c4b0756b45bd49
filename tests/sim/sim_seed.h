/* SPDX-License-Identifier: Apache-2.0 */
/* Run one seed from its beginning to its end. */
#ifndef SIM_SEED_H
#define SIM_SEED_H

#include "sim_plan.h"

/* The result of a seed, which a child process writes for its parent. */
struct sim_result {
	uint64_t hash, virtual_ns, steps, messages, failures;
	/* how many times a connection was resumed at another instance of a
	 * proxy */
	uint64_t resumed;
	unsigned fault[SIM_FAULT_KINDS];
	/* directory of the seed's files, or "" after it was removed */
	char dir[32];
};

/* Run the plan. A finding ends this process, see sim_fail(). */
void sim_seed_run(const struct sim_plan *plan, struct sim_result *result);
/* Remove the files of a seed that ended early. */
void sim_seed_clean(struct sim_result *result);

#endif
