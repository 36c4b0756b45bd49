/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Let the proxies of a node run only in short slices of CPU time. The devices
 * of these proxies are software HCAs, which make progress only in these slices.
 * In some slices the devices make no progress, as if another thread of the
 * proxy ran. The engine must not fence a rail only because a proxy gets little
 * CPU time.
 */
#include "engine/lane/lane.h"
#include "sim_fault.h"
#include "sim_hca.h"
#include "sim_node.h"

static const struct sim_plan *plan;
static struct sim_event slice[SIM_PLAN_NODES], slice_ends[SIM_PLAN_NODES];
static uint64_t until[SIM_PLAN_NODES];

static void on_slice(void *arg);

static void stand_still(unsigned node, unsigned rail, uint64_t ns)
{
	sim_device(node, rail)->still_until = sim_now + ns;
}

static void on_slice_end(void *arg)
{
	unsigned node = (unsigned)(uintptr_t)arg;
	struct sim_proc *proxy = sim_node_proxy(node);
	uint64_t away = SIM_MS + sim_hca_draw(200 * SIM_MS);

	if (proxy && proxy->stopped_until < sim_now)
		sim_proc_stop(proxy, sim_now + away);
	for (unsigned r = 0; r < plan->rails; r++)
		stand_still(node, r, away);
	sim_event_arm(&slice[node], sim_now + away, on_slice, arg);
}

static void on_slice(void *arg)
{
	unsigned node = (unsigned)(uintptr_t)arg;
	uint64_t lasts = 50 * SIM_US + sim_hca_draw(3 * SIM_MS);

	if (sim_now >= until[node])
		return;
	for (unsigned r = 0; r < plan->rails; r++) {
		if (!sim_hca_draw(2))
			stand_still(node, r, lasts);
	}
	sim_event_arm(&slice_ends[node], sim_now + lasts, on_slice_end, arg);
}

void sim_starve(const struct sim_plan *p, unsigned node, uint64_t ns)
{
	plan = p;
	if (until[node] < sim_now + ns)
		until[node] = sim_now + ns;
	if (!slice[node].place && !slice_ends[node].place)
		on_slice((void *)(uintptr_t)node);
}

/* Return whether starvation is the only fault of the plan that can stop a
 * rail. */
static bool rails_are_well(void)
{
	for (unsigned i = 0; i < plan->faults; i++) {
		switch (plan->fault[i].kind) {
		case SIM_FAULT_STARVE:
		case SIM_FAULT_SLOW:
		case SIM_FAULT_STOP_RANK:
		case SIM_FAULT_STOP_PROXY:
		case SIM_FAULT_CLOCK:
		case SIM_FAULT_RESET:
		case SIM_FAULT_TOOLS:
		case SIM_FAULT_STRANGER:
		case SIM_FAULT_LIAR:
			continue;
		default:
			return false;
		}
	}
	return true;
}

void __real_mpib_lane_rail_to_err(struct mpib_lane *lane, unsigned rail);
void __wrap_mpib_lane_rail_to_err(struct mpib_lane *lane, unsigned rail);

/* The engine calls this function as the first step of a fence. Fail the seed if
 * the engine fences the rail only because the peer is starved. */
void __wrap_mpib_lane_rail_to_err(struct mpib_lane *lane, unsigned rail)
{
	if (lane->ctl.rail[rail].cause == MPIB_CAUSE_STUCK && plan &&
	    rails_are_well())
		sim_fail("rail %u of a starved peer is fenced", rail);
	__real_mpib_lane_rail_to_err(lane, rail);
}
