/* SPDX-License-Identifier: Apache-2.0 */
/* Apply an operator's faults to the simulated devices, as the engine applies
 * them to software HCAs. On any other HCA, the only fault that the engine can
 * inject is to kill QPs. */
#include "engine/rehearse.h"
#include "sim_hca.h"
#include "sim_node.h"

int __real_mpib_engine_play(struct mpib_engine *e, struct mpib_fault *f);
int __wrap_mpib_engine_play(struct mpib_engine *e, struct mpib_fault *f);
void __real_mpib_engine_end_play(struct mpib_engine *e,
				 const struct mpib_fault *f);
void __wrap_mpib_engine_end_play(struct mpib_engine *e,
				 const struct mpib_fault *f);

static const struct sim_plan *plan;
static unsigned played;
/* The faults that processes have injected. A fault ends when its process
 * ends. */
static struct playing {
	const struct sim_proc *proc;
	enum mpib_fault_kind kind;
} playing[SIM_PLAN_NODES][SIM_RAILS];

/* Start a fault of the device. If `on` is false, end the fault; `value` is 0 in
 * this case. */
static void play(struct sim_device *d, enum mpib_fault_kind kind,
		 uint64_t value, bool on)
{
	switch (kind) {
	case MPIB_FAULT_RATE:
		d->rate = value;
		break;
	case MPIB_FAULT_DELAY:
		d->delay = value;
		break;
	case MPIB_FAULT_BLACK_HOLE:
		d->hole = on;
		break;
	case MPIB_FAULT_LINK_DOWN:
		sim_device_link(d, !on);
		break;
	case MPIB_FAULT_GONE:
		if (on) {
			sim_device_lose(d, sim_hca_draw(plan->told_late));
			break;
		}
		d->there = true;
		d->calls = 0;
		break;
	case MPIB_FAULT_NONE:
	case MPIB_FAULT_QP_KILL:
		break;
	}
}

int __wrap_mpib_engine_play(struct mpib_engine *e, struct mpib_fault *f)
{
	const struct sim_proc *self = sim_proc_self();
	int rc = 0;

	if (!plan->rehearses || f->kind == MPIB_FAULT_QP_KILL) {
		rc = __real_mpib_engine_play(e, f);
	} else {
		playing[self->node][f->rail] =
			(struct playing){ self, f->kind };
		play(sim_device(self->node, f->rail), f->kind, f->value, true);
	}
	played += rc == 0;
	return rc;
}

void __wrap_mpib_engine_end_play(struct mpib_engine *e,
				 const struct mpib_fault *f)
{
	const struct sim_proc *self = sim_proc_self();

	if (!plan->rehearses || f->kind == MPIB_FAULT_QP_KILL) {
		__real_mpib_engine_end_play(e, f);
		return;
	}
	playing[self->node][f->rail].proc = NULL;
	play(sim_device(self->node, f->rail), f->kind, 0, false);
}

void sim_rehearse_ended(const struct sim_proc *proc)
{
	for (unsigned r = 0; r < SIM_RAILS; r++) {
		struct playing *p = &playing[proc->node][r];

		if (p->proc != proc)
			continue;
		p->proc = NULL;
		play(sim_device(proc->node, r), p->kind, 0, false);
	}
}

void sim_rehearse_by(const struct sim_plan *p)
{
	plan = p;
}

unsigned sim_rehearsals(void)
{
	return played;
}
