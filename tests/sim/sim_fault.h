/* SPDX-License-Identifier: Apache-2.0 */
/* Plays the plan's faults, each at its time, and ends them. */
#ifndef SIM_FAULT_H
#define SIM_FAULT_H

#include "sim_plan.h"

/* The traffic begins now. */
void sim_faults_start(const struct sim_plan *plan);
/* sim_operate.c: an operator drains a rail, or resumes it, and gives other
 * commands. */
void sim_operate(const struct sim_plan *plan, const struct sim_fault *f,
		 bool drain);
/* sim_starve.c: the node's proxies hardly get a core for this time. */
void sim_starve(const struct sim_plan *plan, unsigned node, uint64_t ns);
/* Return whether all faults have happened and ended. */
bool sim_faults_over(void);
unsigned sim_faults_count(enum sim_fault_kind kind);

#endif
