/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_plan.h"

struct sim_fault *sim_plan_fault(struct sim_plan *p, struct sim_rng *r,
				 enum sim_fault_kind kind, uint64_t at)
{
	struct sim_fault *f = &p->fault[p->faults];

	if (p->faults == SIM_FAULTS)
		return NULL;
	p->faults++;
	*f = (struct sim_fault){
		.kind = kind,
		.at = at,
		.lasts = sim_draw_wide(r, SIM_US, 500 * SIM_MS),
		.node = (unsigned)sim_draw(r, p->nodes),
		.rail = (unsigned)sim_draw(r, p->rails),
	};
	return f;
}

/* Add an operator who drains rails and changes settings. */
static void draw_operator(struct sim_plan *p, struct sim_rng *r)
{
	uint64_t at = 0;

	for (unsigned n = (unsigned)sim_draw(r, 4); n > 0; n--) {
		at += sim_draw_wide(r, 1, 200 * SIM_MS);
		if (!sim_plan_fault(p, r, SIM_FAULT_OPERATOR, at))
			return;
	}
}

static void draw_late(struct sim_plan *p, struct sim_rng *r)
{
	if (sim_chance(r, 3))
		p->late =
			sim_draw_wide(r, 1, p->hard ? 3 * SIM_S : 20 * SIM_MS);
	if (p->hard && sim_chance(r, 2))
		sim_plan_arg(p, "--client-connect-timeout=%u",
			     1 + (unsigned)sim_draw(r, 5));
}

/* Let one rail fail repeatedly, so that its epochs wrap. */
static void draw_storm(struct sim_plan *p, struct sim_rng *r)
{
	static const enum sim_fault_kind kinds[] = { SIM_FAULT_QP, SIM_FAULT_QP,
						     SIM_FAULT_DOWN,
						     SIM_FAULT_FLAP,
						     SIM_FAULT_HOLE };
	unsigned node = (unsigned)sim_draw(r, p->nodes);
	unsigned rail = (unsigned)sim_draw(r, p->rails);
	uint64_t at = 0;

	if (p->rails == 1 && !p->hard)
		return;
	sim_plan_arg(p, "--failover-hold-down=1");
	for (unsigned n = 4 + (unsigned)sim_draw(r, 16); n > 0; n--) {
		struct sim_fault *f =
			sim_plan_fault(p, r, kinds[sim_draw(r, 5)], at);

		if (!f)
			return;
		f->node = node;
		f->rail = rail;
		f->lasts = sim_draw_wide(r, SIM_US, 5 * SIM_MS);
		at += sim_draw_wide(r, SIM_MS, 30 * SIM_MS);
	}
}

/* Add tools and strangers, which must not affect the ranks. */
static void draw_others(struct sim_plan *p, struct sim_rng *r)
{
	static const enum sim_fault_kind kinds[] = { SIM_FAULT_TOOLS,
						     SIM_FAULT_STRANGER,
						     SIM_FAULT_TOOLS };
	uint64_t at = 0;

	for (unsigned n = (unsigned)sim_draw(r, 5); n > 0; n--) {
		struct sim_fault *f;

		at += sim_draw_wide(r, 1, 200 * SIM_MS);
		f = sim_plan_fault(p, r, kinds[sim_draw(r, 3)], at);
		if (!f)
			return;
		f->other = (f->node + 1 + (unsigned)sim_draw(r, p->nodes - 1)) %
			   p->nodes;
	}
}

/* Hang a device. If no error is allowed, use the same rail as all other faults
 * that remove devices. */
static void draw_hang(struct sim_plan *p, struct sim_rng *r)
{
	struct sim_fault *f;

	if (p->rails == 1 && !p->hard)
		return;
	f = sim_plan_fault(p, r, SIM_FAULT_HANG,
			   sim_draw_wide(r, 1, 300 * SIM_MS));
	if (!f)
		return;
	f->lasts = sim_draw_wide(r, SIM_US, 8 * SIM_S);
	if (!p->hard)
		f->rail = p->seed % 2;
}

/* Spread the messages over time, so that the last message comes after the
 * faults. */
static void draw_span(struct sim_plan *p, struct sim_rng *r)
{
	uint64_t end = SIM_MS;

	for (unsigned i = 0; i < p->faults; i++) {
		const struct sim_fault *f = &p->fault[i];
		uint64_t lasts = f->lasts < SIM_S ? f->lasts : SIM_S;

		if (end < f->at + lasts)
			end = f->at + lasts;
	}
	for (unsigned i = 0; i < p->lines; i++) {
		struct sim_line_plan *l = &p->line[i];

		l->span = sim_chance(r, 2) ? end : sim_draw_wide(r, 1, end);
		l->rx_spans = sim_chance(r, 3);
	}
}

/* Let some requests become older than client.request_timeout. */
static void draw_deadline(struct sim_plan *p, struct sim_rng *r)
{
	sim_plan_arg(p, "--client-request-timeout=%u",
		     1 + (unsigned)sim_draw(r, 3));
	for (unsigned i = 0; i < p->lines; i++) {
		struct sim_line_plan *l = &p->line[i];

		l->span = sim_draw_wide(r, SIM_S, 8 * SIM_S);
		l->rx_spans = sim_chance(r, 2);
		if (l->messages > 16)
			l->messages = 16;
	}
}

static void draw_quotas(struct sim_plan *p, struct sim_rng *r)
{
	static const char *const names[] = {
		"quota-clients", "quota-connections", "quota-listeners",
		"quota-lanes",	 "quota-regions",     "limit-clients",
	};

	p->quotas = true;
	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (sim_chance(r, 2))
			sim_plan_arg(p, "--%s=%u", names[i],
				     1 + (unsigned)sim_draw(r, 8));
	}
	/* The settings that used these two draws no longer exist. Make the
	 * draws anyway, so that the later draws stay the same. */
	if (sim_chance(r, 2))
		sim_draw(r, 8);
	if (sim_chance(r, 2))
		sim_plan_arg(p, "--quota-fds=%u",
			     7 + (unsigned)sim_draw(r, 20));
	if (sim_chance(r, 2))
		sim_plan_arg(p, "--quota-memory=%u",
			     (unsigned)sim_draw_wide(r, 4096, 64u << 20));
	if (sim_chance(r, 2))
		sim_draw_wide(r, 4096, 64u << 20);
	if (sim_chance(r, 2))
		sim_plan_arg(p, "--quota-messages=%u",
			     (unsigned)sim_draw_wide(r, 4, 1000));
}

static void draw_settings(struct sim_plan *p, struct sim_rng *r)
{
	/* The setting that used this draw no longer exists. Make the draw
	 * anyway, so that the later draws stay the same. */
	sim_chance(r, 3);
	if (sim_chance(r, 3))
		sim_plan_arg(p, "--policy-bdp=%u",
			     (unsigned)sim_draw_wide(r, 1, 1 << 22));
	/* If no error is allowed, do not make each node an island, because
	 * nodes of different islands have only one rail in common. */
	if (sim_chance(r, 3))
		sim_plan_arg(p, "--island-prefix=%u",
			     8 * (unsigned)sim_draw(r, p->hard ? 5 : 4));
	if (sim_chance(r, 3))
		sim_plan_arg(p, "--log-format=json");
	if (sim_chance(r, 3))
		sim_plan_arg(p, "--qp-retry-cnt=%u",
			     1 + (unsigned)sim_draw(r, 7));
	if (sim_chance(r, 6))
		sim_plan_arg(p, "--failover-completion=delivered");
	if (p->hard && sim_chance(r, 6))
		sim_plan_arg(p, "--failover=no");
}

/* Give one node a setting that the other nodes do not have. */
static void draw_odd(struct sim_plan *p, struct sim_rng *r)
{
	static const char *const odd[] = { "--lane-spread=spray",
					   "--lane-spread=split",
					   "--island-prefix=32",
					   "--failover=no",
					   "--mode=static",
					   "--ar-mode=on",
					   "--peer-networks=10.7.0.0/16" };

	p->odd = odd[sim_draw(r, sizeof(odd) / sizeof(*odd))];
}

static void draw_again(struct sim_plan *p)
{
	struct sim_rng r;

	sim_rng_seed(&r, p->seed, "again");
	if (sim_chance(&r, 6))
		draw_storm(p, &r);
	if (sim_chance(&r, 3))
		draw_others(p, &r);
	if (sim_chance(&r, 8))
		draw_hang(p, &r);
	if (sim_chance(&r, 2))
		draw_span(p, &r);
	if (p->hard && sim_chance(&r, 6))
		draw_deadline(p, &r);
	if (p->hard && sim_chance(&r, 4))
		draw_quotas(p, &r);
	if (sim_chance(&r, 3))
		draw_settings(p, &r);
	if (sim_chance(&r, 3))
		p->told_late = sim_draw_wide(&r, 1, 20 * SIM_MS);
	/* The setting that used this draw no longer exists. Make the draw
	 * anyway, so that the later draws stay the same. */
	if (sim_chance(&r, 5))
		sim_draw(&r, 1u << p->nodes);
	if (sim_chance(&r, 3))
		p->starts = sim_draw_wide(&r, 1, 300 * SIM_MS);
	/* Report the loss of a device late, so that the engine still makes
	 * objects on the lost device. */
	if (sim_chance(&r, 2) && (sim_plan_has(p, SIM_FAULT_DEVICE) ||
				  sim_plan_has(p, SIM_FAULT_FORGETS)))
		p->told_late = sim_draw_wide(&r, SIM_MS, 200 * SIM_MS);
	if (p->hard && sim_chance(&r, 8))
		draw_odd(p, &r);
}

/* Let nodes lose a port. The peer links of these nodes must move to the other
 * port's network. If no error is allowed, only ports of one rail go down, so
 * that a node never loses both ports. */
static void draw_network(struct sim_plan *p, struct sim_rng *r)
{
	uint64_t at = 0;

	if (p->rails == 1 && !p->hard)
		return;
	for (unsigned n = 1 + (unsigned)sim_draw(r, 3); n > 0; n--) {
		struct sim_fault *f;

		at += sim_draw_wide(r, 1, 300 * SIM_MS);
		f = sim_plan_fault(p, r, SIM_FAULT_NETWORK, at);
		if (!f)
			return;
		f->lasts = sim_draw_wide(r, 50 * SIM_MS, 500 * SIM_MS);
		if (!p->hard)
			f->rail = p->seed % 2;
	}
}

/* Let rails of two nodes fail while the peer link between these nodes breaks or
 * is slow. */
static void draw_mix(struct sim_plan *p, struct sim_rng *r)
{
	static const enum sim_fault_kind kinds[] = {
		SIM_FAULT_QP,	SIM_FAULT_QP,	 SIM_FAULT_DOWN,
		SIM_FAULT_FLAP, SIM_FAULT_RESET, SIM_FAULT_RESET,
		SIM_FAULT_SLOW, SIM_FAULT_QP_LAG
	};
	unsigned node = (unsigned)sim_draw(r, p->nodes);
	unsigned other = (node + 1) % p->nodes;
	uint64_t at = sim_draw_wide(r, 1, 50 * SIM_MS);

	if (p->rails == 1 && !p->hard)
		return;
	sim_plan_arg(p, "--failover-hold-down=1");
	for (unsigned n = 4 + (unsigned)sim_draw(r, 12); n > 0; n--) {
		struct sim_fault *f =
			sim_plan_fault(p, r, kinds[sim_draw(r, 8)], at);

		if (!f)
			return;
		f->node = sim_chance(r, 2) ? node : other;
		f->other = f->node == node ? other : node;
		f->lasts = sim_draw_wide(r, SIM_US, 100 * SIM_MS);
		at += sim_draw_wide(r, SIM_US, 20 * SIM_MS);
	}
}

/* Choose the lines that have GPU memory. */
static void draw_gpus(struct sim_plan *p, struct sim_rng *r)
{
	p->gpus = true;
	for (unsigned i = 0; i < p->lines; i++) {
		struct sim_line_plan *l = &p->line[i];

		l->tx_gpu = sim_chance(r, 3);
		l->rx_gpu = sim_chance(r, 2);
		l->tx_direct |= l->tx_gpu;
		l->rx_direct |= l->rx_gpu;
	}
}

/* draw_press() gives each line this number of connections, one after the
 * other */
#define OPENS 8

/* Terminate a proxy while its peers do not answer and ranks are connecting. */
static void draw_press(struct sim_plan *p, struct sim_rng *r)
{
	unsigned node = (unsigned)sim_draw(r, p->nodes);
	uint64_t at = sim_draw_wide(r, 1, 100 * SIM_MS);

	for (unsigned n = 0; n < p->nodes; n++) {
		struct sim_fault *f;

		if (n == node)
			continue;
		f = sim_plan_fault(p, r, SIM_FAULT_CUT, at);
		if (!f)
			return;
		f->node = node;
		f->other = n;
		f->lasts = sim_draw_wide(r, 50 * SIM_MS, 250 * SIM_MS);
	}
	if (sim_plan_fault(p, r, SIM_FAULT_TERM,
			   at + sim_draw_wide(r, 1, 300 * SIM_MS)))
		p->fault[p->faults - 1].node = node;
	p->late = SIM_S;
	p->starts = 300 * SIM_MS;
	for (unsigned i = 0; i < p->lines; i++) {
		struct sim_line_plan *l = &p->line[i];

		l->messages = l->messages * l->lives / OPENS + 1;
		l->lives = OPENS;
	}
}

/* Remove a device while the engine creates objects on it, for example the first
 * lanes. */
static void draw_calls(struct sim_plan *p, struct sim_rng *r)
{
	struct sim_fault *f;

	if (p->rails == 1 && !p->hard)
		return;
	p->calls = 1 + (unsigned)sim_draw(r, 60);
	f = sim_plan_fault(p, r, SIM_FAULT_DEVICE, sim_draw(r, SIM_MS));
	if (f && !p->hard)
		f->rail = p->seed % 2;
}

static void draw_terms(struct sim_plan *p, struct sim_rng *r)
{
	for (unsigned n = 1 + (unsigned)sim_draw(r, 2); n > 0; n--)
		sim_plan_fault(p, r, SIM_FAULT_TERM,
			       sim_draw_wide(r, 1, 300 * SIM_MS));
}

/* Seeds from SIM_NEW_FROM on also have these faults and settings. */
static void draw_new(struct sim_plan *p)
{
	struct sim_rng r;

	sim_rng_seed(&r, p->seed, "new");
	if (sim_chance(&r, 4))
		draw_network(p, &r);
	if (sim_chance(&r, 4))
		draw_gpus(p, &r);
	if (sim_chance(&r, 4))
		draw_mix(p, &r);
	/* The setting that used this draw no longer exists. Make the draw
	 * anyway, so that the later draws stay the same. */
	sim_chance(&r, 4);
	if (sim_chance(&r, 4)) {
		p->crowd = 600;
		p->listens = 8000;
	}
	if (p->hard && sim_chance(&r, 6))
		draw_press(p, &r);
	if (p->hard && sim_chance(&r, 4))
		draw_terms(p, &r);
	p->memory = sim_chance(&r, 2);
	if (sim_chance(&r, 3))
		draw_calls(p, &r);
}

void sim_plan_draw_more(struct sim_plan *p)
{
	struct sim_rng r;

	sim_rng_seed(&r, p->seed, "more");
	if (sim_chance(&r, 3))
		draw_operator(p, &r);
	draw_late(p, &r);
	draw_again(p);
	if (p->seed >= SIM_NEW_FROM)
		draw_new(p);
	if (p->seed >= SIM_NEWEST_FROM)
		sim_plan_draw_newest(p);
}
