/* SPDX-License-Identifier: Apache-2.0 */
/* Act as operators: send commands to a proxy's admin socket, and disturb the
 * device of a rail that is drained. */
#include "sim_fault.h"
#include "sim_hca.h"
#include "sim_node.h"

enum disturbance {
	RATE,
	DELAY,
	HOLE,
	DOWN,
	QPS,
	GONE,
	DISTURBANCES
};

static enum disturbance disturbance_of(const struct sim_fault *f)
{
	return (enum disturbance)(f->at % DISTURBANCES);
}

/* Disturb a device, as people do who change its cable or its settings. If `on`
 * is false, end the disturbance. */
static void disturb(const struct sim_plan *plan, const struct sim_fault *f,
		    bool on)
{
	struct sim_device *d = sim_device(f->node, f->rail);

	switch (disturbance_of(f)) {
	case RATE:
		d->rate = on ? 125000000 : 0;
		break;
	case DELAY:
		d->delay = on ? 300 * SIM_US : 0;
		break;
	case HOLE:
		d->hole = on;
		break;
	case DOWN:
		sim_device_link(d, !on);
		break;
	case GONE:
		if (on) {
			sim_device_lose(d, sim_hca_draw(plan->told_late));
			break;
		}
		d->there = true;
		d->calls = 0;
		break;
	case QPS:
	case DISTURBANCES:
		break;
	}
}

static void order(const struct sim_plan *plan, const struct sim_fault *f,
		  const char *rail)
{
	if (disturbance_of(f) == QPS)
		sim_node_tell(f->node, "fault %s\n", rail);
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
	/* With only one rail, a disturbance could cause an error. */
	if (plan->disturbs && (plan->hard || plan->rails > 1))
		disturb(plan, f, drain);

	sim_node_tell(f->node, "%s %s\n", drain ? "drain" : "resume", rail);
	sim_node_tell(f->node, "set limit.readers %llu\n",
		      (unsigned long long)(100 + f->lasts % 1000));
	sim_node_tell(f->node, "set share.rules name=*%llu:weight=%llu%s\n",
		      (unsigned long long)(f->lasts % 3),
		      (unsigned long long)(1 + f->lasts % 5),
		      plan->shares ? ":limit=1000" : "");
}
