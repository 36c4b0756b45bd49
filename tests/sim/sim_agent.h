/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_AGENT_H
#define SIM_AGENT_H

#include "sim_plan.h"

void sim_agents_seed(const struct sim_plan *plan);

#endif
