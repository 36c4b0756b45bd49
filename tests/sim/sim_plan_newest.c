/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_plan.h"

/* Operators who rehearse faults. Those of a rail that stops are of one rail, as of
 * the devices that go: see sim_plan.c. */
static void draw_orders(struct sim_plan *p, struct sim_rng *r)
{
	uint64_t at = 0;

	if (p->rails == 1 && !p->hard)
		return;
	p->orders = true;
	sim_plan_arg(p, "--fault=yes");
	for (unsigned n = 1 + (unsigned)sim_draw(r, 4);
	     n > 0 && p->faults < SIM_FAULTS; n--) {
		at += sim_draw_wide(r, 1, 200 * SIM_MS);
		p->fault[p->faults++] = (struct sim_fault){
			.kind = SIM_FAULT_OPERATOR,
			.at = at,
			.lasts = sim_draw_wide(r, SIM_US, 500 * SIM_MS),
			.node = (unsigned)sim_draw(r, p->nodes),
			.rail = p->hard ? (unsigned)sim_draw(r, p->rails)
					: (unsigned)(p->seed % 2),
		};
	}
}

/* What seeds before SIM_NEWEST_FROM do not have. */
void sim_plan_draw_newest(struct sim_plan *p)
{
	struct sim_rng r;

	sim_rng_seed(&r, p->seed, "newest");
	if (!sim_chance(&r, 8))
		p->leap_most = sim_draw_wide(&r, 10 * SIM_US, 200 * SIM_US);
	if (sim_chance(&r, 3))
		p->agents = (unsigned)sim_draw(&r, 1u << p->nodes);
	if (sim_chance(&r, 4))
		draw_orders(p, &r);
}
