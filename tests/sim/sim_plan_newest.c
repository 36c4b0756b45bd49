/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_plan.h"

/* Add operators who inject faults. If no error is allowed, all faults that
 * remove devices affect the same rail (see sim_plan.c), and so do the
 * operators' faults. */
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

/* Reset a peer link of a node. Return NULL if the plan has no room for more
 * faults. */
static struct sim_fault *draw_reset(struct sim_plan *p, struct sim_rng *r,
				    uint64_t at)
{
	struct sim_fault *f = sim_plan_fault(p, r, SIM_FAULT_RESET, at);

	if (f)
		f->other = (f->node + 1) % p->nodes;
	return f;
}

/* Add liars and resets of links. */
static void draw_lies(struct sim_plan *p, struct sim_rng *r)
{
	uint64_t at = 0;

	for (unsigned n = 1 + (unsigned)sim_draw(r, 4); n > 0; n--) {
		at += sim_draw_wide(r, 1, 100 * SIM_MS);
		sim_plan_fault(p, r, SIM_FAULT_LIAR, at);
		if (sim_chance(r, 4))
			draw_reset(p, r, at);
	}
}

/* Let links break repeatedly. */
static void draw_resets(struct sim_plan *p, struct sim_rng *r)
{
	uint64_t at = 0;

	for (unsigned n = 2 + (unsigned)sim_draw(r, 5); n > 0; n--) {
		at += sim_draw_wide(r, SIM_MS, 100 * SIM_MS);
		draw_reset(p, r, at);
	}
}

/* Terminate a node's proxy, and reset one of the node's links a moment
 * later. */
static void draw_too_late(struct sim_plan *p, struct sim_rng *r)
{
	struct sim_fault *f;
	unsigned node;
	uint64_t at = sim_draw_wide(r, 1, 200 * SIM_MS);

	f = sim_plan_fault(p, r, SIM_FAULT_TERM, at);
	if (!f)
		return;
	node = f->node;
	f = draw_reset(p, r, at + sim_draw_wide(r, SIM_US, 5 * SIM_MS));
	if (f) {
		f->node = node;
		f->other = (node + 1) % p->nodes;
	}
}

/* Seeds from SIM_LATEST_FROM on also have liars, resets of links, mistakes of
 * operators, and shares. */
static void draw_latest(struct sim_plan *p)
{
	struct sim_rng r;

	sim_rng_seed(&r, p->seed, "latest");
	if (sim_chance(&r, 4))
		draw_lies(p, &r);
	if (sim_chance(&r, 4))
		draw_resets(p, &r);
	if (p->hard && sim_chance(&r, 6))
		draw_too_late(p, &r);
	p->mistakes = sim_chance(&r, 4);
	p->shares = sim_chance(&r, 2);
}

/* In seeds from SIM_DISTURBED_FROM on, operators who send orders also disturb
 * the devices of the rails that they drain. */
static void draw_disturbances(struct sim_plan *p)
{
	struct sim_rng r;

	sim_rng_seed(&r, p->seed, "rehearsed");
	if (!p->orders && sim_chance(&r, 4))
		draw_orders(p, &r);
	p->disturbs = p->orders;
	for (unsigned i = 0; p->disturbs && !p->hard && i < p->faults; i++) {
		if (p->fault[i].kind == SIM_FAULT_OPERATOR)
			p->fault[i].rail = p->seed % 2;
	}
}

/* In seeds from SIM_PATIENT_FROM on, all tasks poll at growing intervals while
 * no event happens. */
static void draw_patience(struct sim_plan *p)
{
	struct sim_rng r;

	sim_rng_seed(&r, p->seed, "patience");
	if (sim_chance(&r, 8))
		return;
	p->looks = (unsigned)sim_draw_wide(&r, 4, 64);
	p->look_most = sim_draw_wide(&r, SIM_MS, 20 * SIM_MS);
	p->leap_far = sim_draw_wide(&r, SIM_MS, 10 * SIM_MS);
}

/* Use vanilla mode. In this mode, a lane to another island uses only SOUT, so a
 * failure of SOUT causes an error. If no error is allowed, all nodes are in one
 * island. */
static void draw_vanilla(struct sim_plan *p, struct sim_rng *r)
{
	sim_plan_arg(p, "--mode=vanilla");
	sim_plan_arg(p, "--island-prefix=%u",
		     p->hard ? 24 + (unsigned)sim_draw(r, 9)
			     : 8 * (1 + (unsigned)sim_draw(r, 3)));
	if (p->hard && !p->odd && sim_chance(r, 4))
		p->odd = "--mode=adaptive";
}

/* Give node 0 another split mode or another kind of lanes. Messages must still
 * arrive, because the nodes need not agree: the sending end chooses the mode,
 * and the end that opens a lane chooses the lane's kind. */
static void draw_own_way(struct sim_plan *p, struct sim_rng *r)
{
	static const char *const ways[] = { "--mode=advanced",
					    "--mode=adaptive", "--mode=static",
					    "--lanes=private",
					    "--lanes=shared" };

	/* Set the mode of the other nodes, too. In a plan with islands, these
	 * nodes would use vanilla mode by default. A node in vanilla mode
	 * refuses lanes of nodes in other modes. */
	sim_plan_arg(p, "--mode=%s", sim_chance(r, 2) ? "adaptive" : "static");
	if (!p->odd)
		p->odd = ways[sim_draw(r, sizeof(ways) / sizeof(*ways))];
}

/* Seeds from SIM_MODES_FROM on also have split modes and retry timeouts. */
static void draw_modes(struct sim_plan *p)
{
	struct sim_rng r;

	sim_rng_seed(&r, p->seed, "modes");
	/* A proxy in advanced mode must not find an agent of the real
	 * machine. */
	sim_plan_arg(p, "--agent-dir=/no/agent");
	if (p->rails > 1 && sim_chance(&r, 4)) {
		draw_vanilla(p, &r);
	} else {
		if (sim_chance(&r, 3))
			draw_own_way(p, &r);
		if (sim_chance(&r, 4))
			sim_plan_arg(p, "--mode=advanced");
	}
	/* These are the proxy's default values. With them, a device retries for
	 * half a minute. */
	if (p->rails > 1 && sim_chance(&r, 4)) {
		sim_plan_arg(p, "--qp-timeout=20");
		sim_plan_arg(p, "--qp-retry-cnt=7");
	}
}

/* Seeds from SIM_FAR_FROM on also have slow peer links. On such a link, a
 * message takes longer than connecting the QPs of a lane. */
static void draw_far(struct sim_plan *p)
{
	struct sim_rng r;

	sim_rng_seed(&r, p->seed, "far");
	if (sim_chance(&r, 3))
		p->far = SIM_MS + sim_draw(&r, 60 * SIM_MS);
}

/* Seeds from SIM_SMALL_FROM to SIM_STARVED_FROM, and seeds from SIM_ALL_FROM
 * on, also have devices with a small maximum message size. In plans with
 * SIM_FAULT_FORGETS, the maximum is larger: the send ops of a connection must
 * suffice for all parts of a slot, see docs/recovery.md. */
static void draw_small(struct sim_plan *p)
{
	bool forgets = sim_plan_has(p, SIM_FAULT_FORGETS);
	struct sim_rng r;

	sim_rng_seed(&r, p->seed, "small");
	if (sim_chance(&r, 2))
		p->message = (uint32_t)sim_draw_wide(
			&r, forgets ? 1 << 16 : 1 << 12, 1 << 18);
}

/* Seeds from SIM_STARVED_FROM on also have proxies that get hardly any CPU
 * time. Half of the plans with such proxies have no other faults. */
static void draw_starved(struct sim_plan *p)
{
	struct sim_rng r;
	uint64_t at = 0;

	sim_rng_seed(&r, p->seed, "starved");
	if (!sim_chance(&r, 4))
		return;
	p->soft = true;
	if (sim_chance(&r, 2))
		p->faults = 0;
	for (unsigned n = 1 + (unsigned)sim_draw(&r, 3); n > 0; n--) {
		struct sim_fault *f;

		at += sim_draw_wide(&r, 1, 200 * SIM_MS);
		f = sim_plan_fault(p, &r, SIM_FAULT_STARVE, at);
		if (f)
			f->lasts = sim_draw_wide(&r, 100 * SIM_MS, 3 * SIM_S);
	}
	for (unsigned i = 0; i < p->lines; i++)
		p->line[i].span = sim_draw_wide(&r, SIM_MS, 3 * SIM_S);
}

/* Seeds from SIM_RELINK_FROM to SIM_TAGS_FROM, and seeds from SIM_ALL_FROM on,
 * also have peer links that break. A broken peer link must not cause an error
 * at a rank. Most links break soon after another fault. In many cases the next
 * link breaks, too, while both ends are still sending their state. */
static void draw_relinks(struct sim_plan *p)
{
	uint64_t at = 0, again;
	struct sim_fault *f;
	struct sim_rng r;
	unsigned node, other, faults = p->faults;

	sim_rng_seed(&r, p->seed, "relinks");
	if (!sim_chance(&r, 2))
		return;
	for (unsigned n = 1 + (unsigned)sim_draw(&r, 4); n > 0; n--) {
		at += sim_draw_wide(&r, 1, 200 * SIM_MS);
		node = (unsigned)sim_draw(&r, p->nodes);
		again = at;
		if (faults && !sim_chance(&r, 4)) {
			f = &p->fault[sim_draw(&r, faults)];
			node = f->node;
			again = f->at + sim_draw_wide(&r, 1, 10 * SIM_MS);
		}
		other = (node + 1 + (unsigned)sim_draw(&r, p->nodes - 1)) %
			p->nodes;
		for (unsigned i = 1 + (unsigned)sim_draw(&r, 4); i > 0; i--) {
			f = sim_plan_fault(p, &r, SIM_FAULT_RESET, again);
			if (!f)
				return;
			f->node = node;
			f->other = other;
			again += sim_draw_wide(&r, 1, 5 * SIM_MS);
		}
	}
}

/* Seeds from SIM_TAGS_FROM on also have lines with up to 64 tags, and post
 * receives and sends as early as NCCL allows. */
static void draw_tags(struct sim_plan *p)
{
	struct sim_rng r;

	sim_rng_seed(&r, p->seed, "tags");
	for (unsigned i = 0; i < p->lines; i++) {
		struct sim_line_plan *l = &p->line[i];
		size_t each = (size_t)l->group * l->room;

		if (!sim_chance(&r, 2))
			continue;
		l->families = 1 + (unsigned)sim_draw(&r, SIM_GROUP);
		l->window = 1 + (unsigned)sim_draw(&r, SIM_WINDOW);
		l->ahead = 1 + (unsigned)sim_draw(&r, SIM_WINDOW);
		while (l->window > 1 && l->window * each > 4u << 20)
			l->window /= 2;
		while (l->ahead > 1 && l->ahead * each > 4u << 20)
			l->ahead /= 2;
	}
}

/* Kill a node's proxy, and in most cases also the next proxies, while ranks
 * resume. Ranks retry every 10 to 250 ms. Return the time at which the last
 * proxy starts, or 0 if the plan has no room for more faults. */
static uint64_t draw_kills(struct sim_plan *p, struct sim_rng *r, uint64_t at)
{
	bool again = false;

	for (unsigned i = (unsigned)sim_draw(r, 4); i < 4; i++) {
		struct sim_fault *f =
			sim_plan_fault(p, r, SIM_FAULT_KILL_PROXY, at);

		if (!f)
			return 0;
		/* If `rail` is 0, the fault kills the current proxy at once. If
		 * `rail` is 1, the fault waits until a rank resumes at the
		 * node, and then kills the node's proxy, see sim_fault.c. */
		f->rail = again && sim_chance(r, 2);
		again = true;
		f->lasts = sim_draw_wide(r, SIM_US, SIM_S);
		at += f->lasts + (sim_chance(r, 2)
					  ? sim_draw(r, 40 * SIM_MS)
					  : sim_draw_wide(r, 1, 300 * SIM_MS));
	}
	return at;
}

/* Seeds from SIM_RESUMED_FROM on also have killed proxies, whose ranks resume.
 * Any proxy can be killed at any time. Most lines spread their messages over
 * the time in which proxies are killed. */
static void draw_resumed(struct sim_plan *p)
{
	uint64_t at = 0, end = 0, last = SIM_MS;
	struct sim_rng r;

	sim_rng_seed(&r, p->seed, "resumed");
	if (!sim_chance(&r, 2))
		return;
	p->resumes = true;
	sim_plan_arg(p, "--resume-grace=%u",
		     p->hard ? 1 + (unsigned)sim_draw(&r, 20) : 60);
	if (sim_chance(&r, 2))
		p->faults = 0;
	for (unsigned n = 1 + (unsigned)sim_draw(&r, 6); n > 0; n--) {
		at += sim_draw_wide(&r, SIM_US, 300 * SIM_MS);
		end = draw_kills(p, &r, at);
		last = end > last ? end : last;
	}
	for (unsigned i = 0; i < p->lines; i++) {
		if (!sim_chance(&r, 4))
			p->line[i].span = sim_draw_wide(&r, SIM_MS, 2 * last);
	}
}

/* Return whether the fault can cause the loss of a device. An operator's fault
 * can do so if the plan's `disturbs` is set. */
static bool loses_device(const struct sim_plan *p, const struct sim_fault *f)
{
	return f->kind == SIM_FAULT_DEVICE || f->kind == SIM_FAULT_FORGETS ||
	       f->kind == SIM_FAULT_HANG ||
	       (f->kind == SIM_FAULT_OPERATOR && p->disturbs);
}

static bool takes_port(const struct sim_fault *f)
{
	return f->kind == SIM_FAULT_DOWN || f->kind == SIM_FAULT_FLAP ||
	       f->kind == SIM_FAULT_NETWORK;
}

/* Maximum time from the start of a proxy until the proxy has read the states of
 * its ports. */
#define STARTS_WITHIN (50 * SIM_MS)

/* Return whether a proxy can start on the fault's node after the fault has
 * begun. */
static bool starts_after(const struct sim_plan *p, const struct sim_fault *f)
{
	for (unsigned i = 0; i < p->faults; i++) {
		const struct sim_fault *kill = &p->fault[i];

		if (kill->kind == SIM_FAULT_KILL_PROXY &&
		    kill->node == f->node &&
		    kill->at + kill->lasts + STARTS_WITHIN >= f->at)
			return true;
	}
	return false;
}

/* Return whether the faults of all nodes together can remove all rails. A proxy
 * that starts while a port is down never uses the port's rail. If this proxy is
 * the node's last one, the node never uses the rail again. Devices of the other
 * rail can be lost, too. */
static bool may_lose_all(const struct sim_plan *p)
{
	unsigned lost = 0;

	for (unsigned i = 0; i < p->faults; i++) {
		const struct sim_fault *f = &p->fault[i];

		if (loses_device(p, f) || (takes_port(f) && starts_after(p, f)))
			lost |= 1u << f->rail;
	}
	return lost == (1u << p->rails) - 1;
}

/* Return whether the plan's seed is in [from, until), or is SIM_ALL_FROM or
 * higher. Only the plans of these seeds include the caller's addition. */
static bool drawn_between(const struct sim_plan *p, uint64_t from,
			  uint64_t until)
{
	return (p->seed >= from && p->seed < until) || p->seed >= SIM_ALL_FROM;
}

/* Seeds from SIM_NEWEST_FROM on also have jumps of virtual time, nodes with
 * agents, and operators who inject faults. Higher seeds have further
 * additions. */
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
	if (p->seed >= SIM_LATEST_FROM)
		draw_latest(p);
	if (p->seed >= SIM_DISTURBED_FROM)
		draw_disturbances(p);
	if (p->seed >= SIM_PATIENT_FROM)
		draw_patience(p);
	if (p->seed >= SIM_MODES_FROM)
		draw_modes(p);
	if (p->seed >= SIM_FAR_FROM)
		draw_far(p);
	if (drawn_between(p, SIM_SMALL_FROM, SIM_STARVED_FROM))
		draw_small(p);
	if (p->seed >= SIM_STARVED_FROM)
		draw_starved(p);
	if (drawn_between(p, SIM_RELINK_FROM, SIM_TAGS_FROM))
		draw_relinks(p);
	if (p->seed >= SIM_TAGS_FROM)
		draw_tags(p);
	if (p->seed >= SIM_RESUMED_FROM)
		draw_resumed(p);
	if (p->resumes && may_lose_all(p))
		p->hard = true;
}
