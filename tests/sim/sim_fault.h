/* SPDX-License-Identifier: Apache-2.0 */
/* Start and end the plan's faults at their times. */
#ifndef SIM_FAULT_H
#define SIM_FAULT_H

#include "sim_plan.h"

/* Schedule the faults of the plan. The faults' times are relative to this call,
 * so make the call when the messages start. */
void sim_faults_start(const struct sim_plan *plan);
/* sim_operate.c: act as an operator. If `drain` is set, drain a rail, otherwise
 * resume a rail. Send other commands, too. */
void sim_operate(const struct sim_plan *plan, const struct sim_fault *f,
		 bool drain);
/* sim_starve.c: give the node's proxies hardly any CPU time for `ns`
 * nanoseconds. */
void sim_starve(const struct sim_plan *plan, unsigned node, uint64_t ns);
/* Return whether all faults have happened and ended. */
bool sim_faults_over(void);
unsigned sim_faults_count(enum sim_fault_kind kind);

#endif
