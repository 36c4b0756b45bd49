/* SPDX-License-Identifier: Apache-2.0 */
/* Start and end the plan's faults at their times. */
#ifndef SIM_FAULT_H
#define SIM_FAULT_H

#include "sim_plan.h"

/* Start the faults. The plan's times are relative to this call. The messages
 * start at this call, too. */
void sim_faults_start(const struct sim_plan *plan);
/* sim_operate.c: act as an operator, who drains or resumes a rail and sends
 * other commands. */
void sim_operate(const struct sim_plan *plan, const struct sim_fault *f,
		 bool drain);
/* sim_starve.c: for `ns`, give the node's proxies hardly any CPU time. */
void sim_starve(const struct sim_plan *plan, unsigned node, uint64_t ns);
/* Return whether all faults have happened and ended. */
bool sim_faults_over(void);
unsigned sim_faults_count(enum sim_fault_kind kind);

#endif
