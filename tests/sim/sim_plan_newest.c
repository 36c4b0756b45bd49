/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_plan.h"

/* What seeds before SIM_NEWEST_FROM do not have. */
void sim_plan_draw_newest(struct sim_plan *p)
{
	struct sim_rng r;

	sim_rng_seed(&r, p->seed, "newest");
	if (!sim_chance(&r, 8))
		p->leap_most = sim_draw_wide(&r, 10 * SIM_US, 200 * SIM_US);
}
