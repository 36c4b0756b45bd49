/* SPDX-License-Identifier: Apache-2.0 */
/* Draw the commands that an operator sends to a proxy's admin socket. */
#include "sim_fault.h"
#include "sim_node.h"

static void order(const struct sim_plan *plan, const struct sim_fault *f,
		  const char *rail)
{
	static const char *const faults[] = { "rate=1000",  "delay=300",
					      "black-hole", "link-down",
					      "qp-kill",    "gone" };

	sim_node_tell(f->node, "fault %s %s %llu\n", faults[f->at % 6], rail,
		      (unsigned long long)(1 + f->lasts % 3));
	sim_node_tell(f->node, "set log.level %s\n",
		      f->lasts % 2 ? "debug" : "info");
	if (plan->hard && f->at / 6 % 4 == 0)
		sim_node_tell(f->node, "kick %llu\n",
			      (unsigned long long)(1 + f->lasts % 5));
}

void sim_operate(const struct sim_plan *plan, const struct sim_fault *f,
		 bool drain)
{
	const char *rail = f->rail == 0 ? "SOUT" : "SUP";

	if (plan->orders && drain)
		order(plan, f, rail);
	else if (plan->orders && f->at / 6 % 2)
		sim_node_tell(f->node, "heal %s\n", rail);

	sim_node_tell(f->node, "%s %s\n", drain ? "drain" : "resume", rail);
	sim_node_tell(f->node, "set limit.readers %llu\n",
		      (unsigned long long)(100 + f->lasts % 1000));
	sim_node_tell(f->node, "set share.rules name=*%llu:weight=%llu%s\n",
		      (unsigned long long)(f->lasts % 3),
		      (unsigned long long)(1 + f->lasts % 5),
		      plan->shares ? ":limit=1000" : "");
}
