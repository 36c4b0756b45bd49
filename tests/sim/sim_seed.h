/* SPDX-License-Identifier: Apache-2.0 */
/* One seed from its beginning to its end. */
#ifndef SIM_SEED_H
#define SIM_SEED_H

#include "sim_plan.h"

/* What a seed has come to; a child process writes it for its parent. */
struct sim_result {
	uint64_t hash, virtual_ns, steps, messages, failures;
	uint64_t resumed; /* connections, in another instance */
	unsigned rehearsals, fault[SIM_FAULT_KINDS];
	char dir[32]; /* what it has written there; "": nothing is left */
};

/* Run the plan. What is found ends this process, see sim_fail(). */
void sim_seed_run(const struct sim_plan *plan, struct sim_result *result);
/* Remove what it has left, as one that ended early does. */
void sim_seed_clean(struct sim_result *result);

#endif
