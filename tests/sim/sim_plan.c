/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const names[SIM_FAULT_KINDS] = {
	[SIM_FAULT_DOWN] = "port down",
	[SIM_FAULT_HOLE] = "black hole",
	[SIM_FAULT_QP] = "QP killed",
	[SIM_FAULT_LAG] = "messages lag",
	[SIM_FAULT_SLOW] = "peer links slow",
	[SIM_FAULT_STOP_RANK] = "rank stopped",
	[SIM_FAULT_STOP_PROXY] = "proxy stopped",
	[SIM_FAULT_DEVICE] = "device gone",
	[SIM_FAULT_FORGETS] = "device forgets",
	[SIM_FAULT_FLAP] = "port flaps",
	[SIM_FAULT_QP_LAG] = "QP stands still",
	[SIM_FAULT_CLOCK] = "clock jumps",
	[SIM_FAULT_RESET] = "peer link reset",
	[SIM_FAULT_OPERATOR] = "operator drains",
	[SIM_FAULT_TOOLS] = "tools ask",
	[SIM_FAULT_STRANGER] = "stranger calls",
	[SIM_FAULT_HANG] = "device hangs",
	[SIM_FAULT_NETWORK] = "network gone",
	[SIM_FAULT_LIAR] = "peer lies",
	[SIM_FAULT_STARVE] = "proxy starved",
	[SIM_FAULT_KILL_PROXY] = "proxy killed",
	[SIM_FAULT_KILL_RANK] = "rank killed",
	[SIM_FAULT_CUT] = "peer link cut",
	[SIM_FAULT_BOTH_DOWN] = "both ports down",
	[SIM_FAULT_HALF] = "peer link half open",
	[SIM_FAULT_SHORT] = "descriptors short",
	[SIM_FAULT_TERM] = "proxy told to stop",
};

const char *sim_fault_name(enum sim_fault_kind kind)
{
	return names[kind];
}

void sim_plan_arg(struct sim_plan *p, const char *fmt, ...)
{
	va_list ap;

	if (p->args == SIM_ARGS)
		sim_fail("a plan has too many arguments");
	va_start(ap, fmt);
	vsnprintf(p->arg[p->args++], SIM_ARG, fmt, ap);
	va_end(ap);
}

static const char *pick(struct sim_rng *r, const char *const *of, unsigned n)
{
	return of[sim_draw(r, n)];
}

/* Return true with a probability of 1/3. If the result is true, the caller
 * draws a setting. Otherwise the caller uses the default. */
static bool other(struct sim_rng *r)
{
	return sim_chance(r, 3);
}

static void draw_lane(struct sim_plan *p, struct sim_rng *r)
{
	static const char *const spreads[] = { "split", "spray", "dqplb",
					       "auto" };
	unsigned depth;

	if (other(r))
		sim_plan_arg(p, "--lane-spread=%s", pick(r, spreads, 4));
	if (other(r))
		sim_plan_arg(p, "--lane-frag=%u", 4096u << sim_draw(r, 5));
	if (other(r))
		sim_plan_arg(p, "--lane-window=%u", 4096u << sim_draw(r, 12));
	if (other(r))
		sim_plan_arg(p, "--lanes=private");
	if (other(r))
		sim_plan_arg(p, "--sout-qp=%u", 1 + (unsigned)sim_draw(r, 6));
	if (other(r))
		sim_plan_arg(p, "--sup-qp=%u", 1 + (unsigned)sim_draw(r, 6));
	if (other(r)) {
		unsigned high = (unsigned)sim_draw_wide(r, 32, 2048);

		sim_plan_arg(p, "--srq-high=%u", high);
		/* The setting that used this draw no longer exists. Make the
		 * draw anyway, so that the later draws stay the same. */
		sim_draw(r, high - 1);
	}
	depth = other(r) ? 32u << sim_draw(r, 8) : 256;
	if (depth != 256)
		sim_plan_arg(p, "--qp-sq-depth=%u", depth);
	/* The setting that used this draw no longer exists. Make the draw
	 * anyway, so that the later draws stay the same. */
	if (other(r))
		sim_draw_wide(r, 1, depth - 17 < 1024 ? depth - 17 : 1024);
	if (other(r))
		sim_plan_arg(p, "--ar-mode=on");
	if (other(r))
		sim_plan_arg(p, "--ar-threshold=%u",
			     (unsigned)sim_draw(r, 9000));
}

static void draw_rest(struct sim_plan *p, struct sim_rng *r)
{
	static const char *const modes[] = { "adaptive", "static" };
	static const char *const ends[] = { "auto", "delivered", "wire" };

	if (other(r))
		sim_plan_arg(p, "--mode=%s", pick(r, modes, 2));
	if (other(r))
		sim_plan_arg(p, "--sup-bw=%u", (unsigned)sim_draw(r, 1025));
	if (other(r))
		sim_plan_arg(p, "--failover-completion=%s",
			     pick(r, ends, p->hard ? 3 : 2));
	if (other(r))
		sim_plan_arg(p, "--share-window=%u",
			     (unsigned)sim_draw(r, 1 << 20));
	if (other(r)) {
		unsigned part = 128 * (1 + (unsigned)sim_draw(r, 256));

		sim_plan_arg(p, "--client-part=%u", part);
		sim_plan_arg(p, "--client-window=%u",
			     (part + 4096 + (unsigned)sim_draw(r, 1 << 18)) &
				     ~127u);
	}
	/* The setting that used this draw no longer exists. Make the draw
	 * anyway, so that the later draws stay the same. */
	other(r);
	sim_plan_arg(p, "--failover-hold-down=%u",
		     (unsigned)sim_draw_wide(r, 1, 2000));
	sim_plan_arg(p, "--failover-grace=%u", p->hard ? 3000 : 600000);
	sim_plan_arg(p, "--threads=%u", p->shards);
	if (p->hard && other(r))
		sim_plan_arg(p, "--client-request-timeout=%u",
			     5 + (unsigned)sim_draw(r, 10));
	if (p->hard && other(r)) {
		unsigned silence = 1 + (unsigned)sim_draw(r, 10);

		sim_plan_arg(p, "--peer-silence=%u", silence > 1 ? silence : 2);
	}
	if (other(r))
		sim_plan_arg(p, "--share-threads=own");
	p->key = sim_chance(r, 6);
	if (p->key)
		sim_plan_arg(p, "--peer-key-file=key");
	/* Use short timeouts, so that a rail fails after less virtual time. */
	sim_plan_arg(p, "--qp-timeout=%u", 8 + (unsigned)sim_draw(r, 5));
}

static void draw_ranks(struct sim_plan *p, struct sim_rng *r)
{
	p->nodes = 2 + (unsigned)sim_draw(r, sim_chance(r, 3) ? 3 : 1);
	if (sim_chance(r, 20))
		p->nodes = 5 + (unsigned)sim_draw(r, SIM_PLAN_NODES - 4);
	p->ranks = p->nodes + (unsigned)sim_draw(r, SIM_RANKS - p->nodes + 1);
	p->rails = sim_chance(r, 8) ? 1 : 2;
	p->shards = 1 + sim_chance(r, 4);
	for (unsigned i = 0; i < p->ranks; i++) {
		p->rank_node[i] = i % p->nodes;
		/* Only ranks of the same user can be connected, so each user
		 * needs two ranks. Plans with four or more ranks have two
		 * users. */
		p->rank_uid[i] = 1000 + (p->ranks > 3 ? i / 2 % 2 : 0);
	}
}

static void draw_line(struct sim_plan *p, struct sim_rng *r,
		      struct sim_line_plan *l)
{
	l->from = (unsigned)sim_draw(r, p->ranks);
	do
		l->to = (unsigned)sim_draw(r, p->ranks);
	while (l->to == l->from || p->rank_uid[l->to] != p->rank_uid[l->from]);
	l->window = 1 + (unsigned)sim_draw(r, 8);
	l->group = sim_chance(r, 3) ? 1 + (unsigned)sim_draw(r, SIM_GROUP) : 1;
	if (l->window * l->group > 24)
		l->window = 24 / l->group;
	l->room = (uint32_t)sim_draw_wide(r, 8, 1 << 17);
	l->ahead = other(r) ? 1 + (unsigned)sim_draw(r, SIM_WINDOW) : l->window;
	/* Limit the memory that a line needs. */
	while (l->ahead > 1 && l->ahead * l->group * l->room > 4u << 20)
		l->ahead /= 2;
	l->families = 1;
	l->eager = other(r);
	l->extra = other(r) ? 1 + (unsigned)sim_draw(r, 4) : 0;
	l->lives = other(r) ? 1 + (unsigned)sim_draw(r, 3) : 1;
	l->watched = sim_chance(r, 5);
	l->tx_direct = sim_chance(r, 2);
	l->rx_direct = sim_chance(r, 2);
}

static void draw_lines(struct sim_plan *p, struct sim_rng *r, unsigned messages)
{
	p->lines = 1 + (unsigned)sim_draw(r, SIM_LINES);
	for (unsigned i = 0; i < p->lines; i++) {
		draw_line(p, r, &p->line[i]);
		p->line[i].messages =
			messages / p->lines / p->line[i].lives + 1;
	}
}

/* Return whether the fault makes a rail unusable for a while. */
static bool takes_rail(enum sim_fault_kind kind)
{
	return kind == SIM_FAULT_DEVICE || kind == SIM_FAULT_FORGETS ||
	       kind == SIM_FAULT_FLAP;
}

/* The kinds of faults to draw from. A kind that appears several times is drawn
 * more often. */
static const enum sim_fault_kind drawn[] = {
	SIM_FAULT_DOWN,	      SIM_FAULT_HOLE,	    SIM_FAULT_QP,
	SIM_FAULT_LAG,	      SIM_FAULT_SLOW,	    SIM_FAULT_STOP_RANK,
	SIM_FAULT_STOP_PROXY, SIM_FAULT_RESET,	    SIM_FAULT_RESET,
	SIM_FAULT_DEVICE,     SIM_FAULT_FORGETS,    SIM_FAULT_FLAP,
	SIM_FAULT_QP_LAG,     SIM_FAULT_CLOCK,	    SIM_FAULT_KILL_PROXY,
	SIM_FAULT_KILL_RANK,  SIM_FAULT_RESET,	    SIM_FAULT_CUT,
	SIM_FAULT_BOTH_DOWN,  SIM_FAULT_KILL_PROXY, SIM_FAULT_HALF,
	SIM_FAULT_SHORT
};
#define DRAWN (sizeof(drawn) / sizeof(*drawn))
/* If no error is allowed, a plan uses only the first DRAWN_SOFT entries. */
#define DRAWN_SOFT (DRAWN - 8)

static enum sim_fault_kind draw_kind(const struct sim_plan *p,
				     struct sim_rng *r)
{
	enum sim_fault_kind kind =
		drawn[sim_draw(r, p->hard ? DRAWN : DRAWN_SOFT)];

	/* With only one rail, a failed rail would cause an error. */
	if (!p->hard && p->rails == 1 &&
	    (kind <= SIM_FAULT_QP || takes_rail(kind)))
		return SIM_FAULT_LAG;
	return kind;
}

static void draw_faults(struct sim_plan *p, struct sim_rng *r)
{
	uint64_t at = 0;

	p->faults = (unsigned)sim_draw(r, sim_chance(r, 3) ? SIM_FAULTS : 6);
	for (unsigned i = 0; i < p->faults; i++) {
		struct sim_fault *f = &p->fault[i];

		f->kind = draw_kind(p, r);
		at += sim_draw_wide(r, 1, 200 * SIM_MS);
		f->at = at;
		f->lasts = sim_draw_wide(r, SIM_US, 500 * SIM_MS);
		f->node = (unsigned)sim_draw(r, p->nodes);
		f->other = (f->node + 1 + (unsigned)sim_draw(r, p->nodes - 1)) %
			   p->nodes;
		f->rail = (unsigned)sim_draw(r, p->rails);
		/* If no error is allowed, only devices of one rail are lost:
		 * two ends without a common rail could not communicate. */
		if ((f->kind == SIM_FAULT_DEVICE ||
		     f->kind == SIM_FAULT_FORGETS) &&
		    !p->hard)
			f->rail = p->seed % 2;
	}
}

void sim_plan_draw(struct sim_plan *p, uint64_t seed, unsigned messages)
{
	struct sim_rng r;

	memset(p, 0, sizeof(*p));
	p->seed = seed;
	sim_rng_seed(&r, seed, "plan");
	p->hard = sim_chance(&r, 3);
	p->looks = 256;
	p->look_most = 1280 * SIM_US;
	p->crowd = 100;
	p->listens = 2000;
	draw_ranks(p, &r);
	draw_lane(p, &r);
	draw_rest(p, &r);
	draw_lines(p, &r, messages);
	draw_faults(p, &r);
	for (unsigned i = 0; i < p->lines && seed < SIM_STAGED_FROM; i++)
		p->line[i].tx_direct |= sim_plan_has(p, SIM_FAULT_FORGETS);
	p->churn = sim_chance(&r, 4);
	p->step_most = sim_draw_wide(&r, 100, 4000);
	p->preempt = sim_chance(&r, 4) ? 0 : 2 + (unsigned)sim_draw(&r, 40);
	sim_plan_draw_more(p);
}

bool sim_plan_has(const struct sim_plan *p, enum sim_fault_kind kind)
{
	for (unsigned i = 0; i < p->faults; i++) {
		if (p->fault[i].kind == kind && !p->fault[i].off)
			return true;
	}
	/* An operator can cause the loss of a device, too. */
	return kind == SIM_FAULT_DEVICE && p->disturbs &&
	       sim_plan_has(p, SIM_FAULT_OPERATOR);
}

void sim_plan_shrink(struct sim_plan *p, const struct sim_smaller *s)
{
	for (unsigned i = 0; i < p->faults; i++)
		p->fault[i].off = s->faults_off >> i & 1;
	for (unsigned i = 0; i < p->lines; i++) {
		p->line[i].messages >>= s->halvings;
		if (s->lines_off >> i & 1)
			p->line[i].messages = 0;
	}
	if (s->calm)
		p->preempt = 0;
}

static const char *memory_name(bool gpu, bool direct)
{
	return gpu ? " GPU" : direct ? " direct" : "";
}

static void print_line(const struct sim_line_plan *l, unsigned number)
{
	fprintf(stderr,
		"  line %u: rank %u%s -> %u%s: %u messages of %u x <= %u bytes, "
		"at most %u outstanding, %u families of tags, %u sends ahead%s%s, "
		"%u additional receives, %u connections, %.3f ms%s\n",
		number, l->from, memory_name(l->tx_gpu, l->tx_direct), l->to,
		memory_name(l->rx_gpu, l->rx_direct), l->messages, l->group,
		l->room, l->window, l->families, l->ahead,
		l->eager ? " by tag" : "", l->watched ? " watched" : "",
		l->extra, l->lives, (double)l->span / 1e6,
		l->rx_spans ? " at both ends" : "");
}

void sim_plan_print(const struct sim_plan *p)
{
	fprintf(stderr,
		"seed %llu: %u nodes, %u rails, %u ranks, %s%s; step <= %llu ns, "
		"jump <= %llu to %llu ns, pause between polls <= %llu us, preemption 1 in %u, "
		"extra latency of peer links %llu us, smallest max_msg_sz %u\n ",
		(unsigned long long)p->seed, p->nodes, p->rails, p->ranks,
		p->hard ? "errors are allowed" : "no error is allowed",
		p->churn ? ", ranks register and deregister memory" : "",
		(unsigned long long)p->step_most,
		(unsigned long long)p->leap_most,
		(unsigned long long)p->leap_far,
		(unsigned long long)p->look_most / 1000, p->preempt,
		(unsigned long long)p->far / 1000, p->message);
	for (unsigned i = 0; i < p->args; i++)
		fprintf(stderr, " %s", p->arg[i]);
	fprintf(stderr, "%s%s%s%s\n", p->odd ? " node 0: " : "",
		p->odd ? p->odd : "", p->mistakes ? "; mistakes" : "",
		p->disturbs ? "; operators disturb devices" : "");
	for (unsigned i = 0; i < p->lines; i++) {
		const struct sim_line_plan *l = &p->line[i];

		if (l->messages)
			print_line(l, i);
	}
	for (unsigned i = 0; i < p->faults; i++) {
		const struct sim_fault *f = &p->fault[i];

		if (!f->off)
			fprintf(stderr,
				"  fault %u: %s, node %u rail %u (other %u), "
				"at %.3f ms for %.3f ms\n",
				i, names[f->kind], f->node, f->rail, f->other,
				(double)f->at / 1e6, (double)f->lasts / 1e6);
	}
}
