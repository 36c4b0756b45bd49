/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_fault.h"

#include "sim_hca.h"
#include "sim_node.h"
#include "sim_rank.h"
#include "sim_sock.h"
#include "verbs/verbs.h"

/* interval between checks for proxies that have lost a device */
#define LOOKS_EVERY (10 * SIM_S)

static const struct sim_plan *plan;
static struct sim_event begins[SIM_FAULTS], ends[SIM_FAULTS];
static struct sim_event flaps[SIM_FAULTS], looks;
static unsigned left, happened[SIM_FAULT_KINDS];

static void kill_qp(struct sim_device *d)
{
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	struct sim_qp *qp = sim_device_qp(d);

	if (qp)
		sim_verbs.modify_qp(&qp->ibv, &err, IBV_QP_STATE);
}

/* Stop the proxy for the time that the plan gives. In a plan that allows no
 * error, this time is shorter than peer.silence. */
static void stop_proxy(const struct sim_fault *f)
{
	struct sim_proc *proxy = sim_node_proxy(f->node);

	if (proxy)
		sim_proc_stop(proxy, sim_now + f->lasts);
}

/* Return the factor by which to extend a network fault. With the larger factor,
 * the fault can last longer than peer.silence. Such a fault can cause an error
 * if the cluster has no key: without a key, a node uses the second address of a
 * peer only after it has reached the peer once. */
static unsigned network_lasts(void)
{
	return plan->hard || plan->key ? 200 : 14;
}

static uint64_t lasts(const struct sim_fault *f)
{
	if (f->kind == SIM_FAULT_CUT || f->kind == SIM_FAULT_HALF)
		return 40 * f->lasts;
	/* A fault of this kind can last longer than failover.grace. */
	if (f->kind == SIM_FAULT_BOTH_DOWN)
		return 10 * f->lasts;
	if (f->kind == SIM_FAULT_NETWORK)
		return network_lasts() * f->lasts;
	return f->lasts;
}

static unsigned number_of(const struct sim_fault *f)
{
	return (unsigned)(f - plan->fault);
}

static void on_flap(void *arg)
{
	const struct sim_fault *f = arg;
	struct sim_device *d = sim_device(f->node, f->rail);

	sim_device_link(d, d->down);
	sim_event_arm(&flaps[number_of(f)], sim_now + f->lasts / 6 + 1, on_flap,
		      arg);
}

/* Remove the device that has acknowledged writes but has not executed them.
 * Otherwise neither end would notice that these writes are lost. */
static void on_forgot(void *arg)
{
	const struct sim_fault *f = arg;
	struct sim_device *d = sim_device(f->node, f->rail);

	sim_device_lose(d, sim_hca_draw(plan->told_late));
	d->forgets = false;
}

static void lag_qp(struct sim_device *d, uint64_t ns)
{
	struct sim_qp *qp = sim_device_qp(d);

	if (qp)
		qp->stands_until = sim_now + ns;
}

/* Start a fault of one of the kinds that sim_plan_more.c adds to plans. */
static void strike_more(const struct sim_fault *f)
{
	switch (f->kind) {
	case SIM_FAULT_OPERATOR:
		sim_operate(plan, f, true);
		break;
	case SIM_FAULT_TOOLS:
		sim_visit_tool(f->node, sim_hca_draw(1ull << 36));
		break;
	case SIM_FAULT_STRANGER:
		for (unsigned i = 0; i < (f->rail ? plan->crowd : 1); i++)
			sim_visit_stranger(f->node, f->other,
					   sim_hca_draw(1ull << 48),
					   plan->listens);
		break;
	case SIM_FAULT_LIAR:
		sim_visit_liar(f->node, sim_hca_draw(1ull << 48));
		break;
	case SIM_FAULT_STARVE:
		sim_starve(plan, f->node, f->lasts);
		break;
	case SIM_FAULT_NETWORK:
		sim_device_link(sim_device(f->node, f->rail), false);
		sim_net_port(f->node, f->rail, sim_now + lasts(f));
		break;
	case SIM_FAULT_HANG:
		sim_device_hang(sim_device(f->node, f->rail),
				sim_now + f->lasts);
		break;
	default:
		break;
	}
}

static void strike_hard(const struct sim_fault *f)
{
	switch (f->kind) {
	case SIM_FAULT_KILL_PROXY:
		if (plan->resumes && f->rail)
			sim_node_trap(f->node);
		else
			sim_node_kill(f->node);
		break;
	case SIM_FAULT_KILL_RANK:
		sim_rank_kill((f->node + f->other * f->rail) % plan->ranks);
		break;
	case SIM_FAULT_CUT:
		sim_net_cut(f->node, f->other, sim_now + 40 * f->lasts);
		break;
	case SIM_FAULT_BOTH_DOWN:
		for (unsigned r = 0; r < plan->rails; r++)
			sim_device_link(sim_device(f->node, r), false);
		break;
	case SIM_FAULT_HALF:
		sim_net_half(f->node, f->other, sim_now + 40 * f->lasts);
		break;
	case SIM_FAULT_SHORT:
		sim_node_short(f->node, true);
		break;
	case SIM_FAULT_TERM:
		sim_node_term(f->node);
		break;
	default:
		break;
	}
}

static void strike_device(struct sim_fault *f)
{
	struct sim_device *d = sim_device(f->node, f->rail);
	uint64_t later;

	switch (f->kind) {
	case SIM_FAULT_DEVICE:
		later = sim_hca_draw(plan->told_late);
		sim_device_lose_at(d, (unsigned)sim_hca_draw(plan->calls),
				   later);
		break;
	case SIM_FAULT_FORGETS:
		d->forgets = true;
		d->dies = plan->seed >= SIM_STAGED_FROM;
		sim_event_arm(&flaps[number_of(f)], sim_now + f->lasts / 2,
			      on_forgot, f);
		break;
	case SIM_FAULT_FLAP:
		on_flap(f);
		break;
	case SIM_FAULT_QP_LAG:
		lag_qp(d, f->lasts);
		break;
	case SIM_FAULT_CLOCK:
		sim_clock_jump((int64_t)f->lasts * (f->rail ? -1000 : 1000));
		break;
	default:
		if (f->kind >= SIM_FAULT_KILL_PROXY)
			strike_hard(f);
		else
			strike_more(f);
	}
}

static void strike(struct sim_fault *f)
{
	struct sim_device *d = sim_device(f->node, f->rail);

	switch (f->kind) {
	case SIM_FAULT_DOWN:
		sim_device_link(d, false);
		break;
	case SIM_FAULT_HOLE:
		d->hole = true;
		break;
	case SIM_FAULT_QP:
		kill_qp(d);
		break;
	case SIM_FAULT_LAG:
		d->lag = f->lasts / 8 + 1;
		d->lag_until = sim_now + f->lasts;
		break;
	case SIM_FAULT_SLOW:
		sim_net_slow(sim_now + f->lasts, f->lasts / 16 + 1);
		break;
	case SIM_FAULT_STOP_RANK:
		sim_proc_stop(sim_rank(f->node)->proc, sim_now + f->lasts);
		break;
	case SIM_FAULT_STOP_PROXY:
		stop_proxy(f);
		break;
	case SIM_FAULT_RESET:
		sim_net_reset(f->node, f->other);
		break;
	default:
		strike_device(f);
	}
}

static void heal(const struct sim_fault *f)
{
	struct sim_device *d = sim_device(f->node, f->rail);

	switch (f->kind) {
	case SIM_FAULT_DOWN:
	case SIM_FAULT_NETWORK:
		sim_device_link(d, true);
		break;
	case SIM_FAULT_HOLE:
		d->hole = false;
		break;
	case SIM_FAULT_FLAP:
		sim_event_disarm(&flaps[number_of(f)]);
		sim_device_link(d, true);
		break;
	case SIM_FAULT_DEVICE:
	case SIM_FAULT_FORGETS:
		d->there = true;
		d->calls = 0;
		break;
	case SIM_FAULT_BOTH_DOWN:
		for (unsigned r = 0; r < plan->rails; r++)
			sim_device_link(sim_device(f->node, r), true);
		break;
	case SIM_FAULT_KILL_PROXY:
	case SIM_FAULT_TERM:
		if (!sim_node_any(f->node))
			sim_node_start(f->node);
		break;
	case SIM_FAULT_CUT:
	case SIM_FAULT_HALF:
		sim_net_cut(f->node, f->other, 0);
		break;
	case SIM_FAULT_SHORT:
		sim_node_short(f->node, false);
		break;
	case SIM_FAULT_OPERATOR:
		sim_operate(plan, f, false);
		break;
	default:
		break;
	}
}

/* Restart each proxy that has lost a device, because only a new proxy opens the
 * device again. A restart causes errors unless ranks outlive their proxies.
 * Restart no proxy if the plan does not allow these errors. */
static void on_look(void *arg)
{
	if (sim_ranks_over() || !(plan->hard || plan->resumes))
		return;
	for (unsigned n = 0; n < plan->nodes; n++) {
		if (sim_node_lacks(n))
			sim_node_term(n);
	}
	sim_event_arm(&looks, sim_now + LOOKS_EVERY, on_look, arg);
}

static void on_heal(void *arg)
{
	const struct sim_fault *f = arg;

	sim_trace("fault %u, %s, ends", (unsigned)(f - plan->fault),
		  sim_fault_name(f->kind));
	heal(f);
	if (--left == 0)
		sim_event_arm(&looks, sim_now + LOOKS_EVERY, on_look, NULL);
}

static void on_strike(void *arg)
{
	struct sim_fault *f = arg;
	size_t i = (size_t)(f - plan->fault);

	sim_trace("fault %zu, %s, node %u rail %u", i, sim_fault_name(f->kind),
		  f->node, f->rail);
	happened[f->kind]++;
	strike(f);
	sim_event_arm(&ends[i], sim_now + lasts(f), on_heal, f);
}

void sim_faults_start(const struct sim_plan *p)
{
	plan = p;
	sim_hca_soft(plan->soft);
	for (unsigned i = 0; i < plan->faults; i++) {
		/* Cast away const, because the callback's argument is not
		 * const. */
		struct sim_fault *f =
			(struct sim_fault *)(uintptr_t)&plan->fault[i];

		if (f->off)
			continue;
		left++;
		sim_event_arm(&begins[i], sim_now + f->at, on_strike, f);
	}
}

bool sim_faults_over(void)
{
	return left == 0;
}

unsigned sim_faults_count(enum sim_fault_kind kind)
{
	return happened[kind];
}
