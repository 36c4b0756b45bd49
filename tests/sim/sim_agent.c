/* SPDX-License-Identifier: Apache-2.0 */
/* Let the agents of some nodes call rails sick, each time for a while. */
#include "agent/agent.h"

#include "sim_agent.h"
#include "sim_task.h"
#include "sim_wrap.h"

static struct sim_rng chance;
static unsigned agents;
static uint8_t sick[SIM_PLAN_NODES];

void sim_agents_seed(const struct sim_plan *plan)
{
	sim_rng_seed(&chance, plan->seed, "agents");
	/* Lower seeds keep their old faults. */
	agents = plan->seed >= SIM_STAGED_FROM ? plan->agents : 0;
}

uint8_t __wrap_mpib_agent_sick(const struct mpib_agent_link *link)
{
	const struct sim_proc *p = sim_proc_self();

	(void)link;
	if (!p || !(agents >> p->node & 1))
		return 0;
	if (sim_chance(&chance, 2))
		sick[p->node] = (uint8_t)sim_draw(&chance, 1u << MPIB_RAILS);
	return sick[p->node];
}
