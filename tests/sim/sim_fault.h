/* SPDX-License-Identifier: Apache-2.0 */
/* Start and end the plan's faults at their times. */
#ifndef SIM_FAULT_H
#define SIM_FAULT_H

#include "sim_plan.h"

/* Start the faults of the plan, whose times are relative to this call. Call
 * this when the messages start. */
void sim_faults_start(const struct sim_plan *plan);
/* sim_operate.c: act as an operator: drain (`drain`) or resume a rail, and send
 * other commands. */
void sim_operate(const struct sim_plan *plan, const struct sim_fault *f,
		 bool drain);
/* sim_starve.c: give the node's proxies hardly any CPU time for `ns`
 * nanoseconds. */
void sim_starve(const struct sim_plan *plan, unsigned node, uint64_t ns);
/* Return whether all faults have happened and ended. */
bool sim_faults_over(void);
unsigned sim_faults_count(enum sim_fault_kind kind);

#endif
