/* SPDX-License-Identifier: Apache-2.0 */
/* Make the reports that the nodes' agents send about their rails. Each report
 * differs from the previous one. */
#include "agent/agent.h"

#include <string.h>

#include "sim_agent.h"
#include "sim_task.h"
#include "sim_wrap.h"

#define RAILS 4 /* number of possible bit masks for two rails */

static struct sim_rng chance;
static unsigned said;

void sim_agents_seed(const struct sim_plan *plan)
{
	sim_rng_seed(&chance, plan->seed, "agents");
	said = plan->agents;
}

void __wrap_mpib_agent_said(const struct mpib_agent_link *link, uint32_t peer,
			    struct mpib_agent_word *word)
{
	const struct sim_proc *p = sim_proc_self();
	size_t len;

	(void)link;
	(void)peer;
	memset(word, 0, sizeof(*word));
	if (!p || !(said >> p->node & 1) || sim_chance(&chance, 8))
		return;
	word->there = true;
	word->sick = (uint8_t)sim_draw(&chance, RAILS);
	word->congested = (uint8_t)sim_draw(&chance, RAILS);
	word->maintenance = (uint8_t)sim_draw(&chance, RAILS);
	len = sim_draw(&chance, sizeof(word->island));
	for (size_t i = 0; i < len; i++)
		word->island[i] = (char)(' ' + sim_draw(&chance, '~' - ' '));
}
