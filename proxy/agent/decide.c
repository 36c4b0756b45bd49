/* SPDX-License-Identifier: Apache-2.0 */
/* What is right for each connection. */
#include "agent/decide.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define NS 1000000000ull
#define ALL MPIB_HINT_SUP_BW_MAX
#define QUARTER (ALL / 4)

static const char *const rail_word[MPIB_RAILS] = { "SOUT", "SUP" };

/* How bad it is to use a rail, and why. */
struct objection {
	enum {
		WELL,
		SLOW,
		SICK,
		MAINTENANCE
	} worst;
	char why[MPIB_AGENT_REASON];
};

static void objection_add(struct objection *t, int worst, const char *why)
{
	if ((int)t->worst >= worst)
		return;
	t->worst = worst;
	snprintf(t->why, sizeof(t->why), "%s", why);
}

void mpib_agent_time(struct mpib_agent_slot *s,
		     const struct mpib_agent_sample *now)
{
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		uint64_t *timed = &s->rail[r].timed_bytes;
		bool moved = now->acked_bytes[r] != *timed;

		s->rtt_ns[r] = moved ? now->rtt_ns[r] : 0;
		*timed = now->acked_bytes[r];
	}
}

/* Whether the path over rail r answers late, or did less than hold_s ago. */
static bool is_slow(struct mpib_agent_policy *p, struct mpib_agent_slot *s,
		    unsigned r)
{
	uint64_t other = s->rtt_ns[!r], *last = &s->choice.slow_ns[r];

	if (p->conf.slow && other && s->rtt_ns[r] / other >= p->conf.slow)
		*last = p->now.ns;
	else if (!p->conf.slow || p->now.ns - *last >= p->conf.hold_s * NS)
		*last = 0;
	return *last != 0;
}

static struct objection objection_of(struct mpib_agent_policy *p,
				     struct mpib_agent_slot *s, unsigned r)
{
	const struct mpib_agent_window *w = mpib_agent_window_of(
		&p->windows, s->dst_ip, r, p->now.s, p->conf.lead_s);
	const struct mpib_agent_peer *there =
		mpib_agent_peer_of(&p->peers, s->dst_ip, p->now.s);
	struct objection t = { .worst = WELL };
	char why[MPIB_AGENT_REASON];

	if (w) {
		snprintf(why, sizeof(why), "maintenance, line %u", w->line);
		objection_add(&t, MAINTENANCE, why);
	}
	if (there && there->maintenance & 1u << r)
		objection_add(&t, MAINTENANCE, "maintenance at the peer");
	if (p->ports.sick[r].since)
		objection_add(&t, SICK, p->ports.sick[r].why);
	if (there && there->sick & 1u << r)
		objection_add(&t, SICK, "sick by the peer's agent");
	if (is_slow(p, s, r)) {
		snprintf(why, sizeof(why), "slow, %u or more times the other",
			 (unsigned)p->conf.slow);
		objection_add(&t, SLOW, why);
	}
	return t;
}

/* The share of its rule. */
static uint32_t ruled_share(const struct mpib_agent_slot *s)
{
	const struct mpib_agent_rule *rule = s->choice.rule;

	if (rule->kind == MPIB_RULE_FIXED)
		return rule->share;
	if (rule->kind == MPIB_RULE_ADAPTIVE && s->adaptive)
		return MPIB_HINT_OWN;
	return s->choice.balance <= ALL ? s->choice.balance : ALL / 2;
}

/* A congested rail's part, where the rule gives it more. */
static uint32_t ease(uint32_t share, unsigned congested)
{
	if (congested == MPIB_RAIL_SUP)
		return share > QUARTER ? QUARTER : share;
	return share > ALL || share < ALL - QUARTER ? ALL - QUARTER : share;
}

/* Take share, for the rule's reason or another. */
static void settle(struct mpib_agent_policy *p, unsigned slot, uint32_t share,
		   const char *why)
{
	struct mpib_agent_slot *s = &p->agent->slot[slot];
	struct mpib_agent_choice *c = &s->choice;
	bool hops = c->rule->kind == MPIB_RULE_BALANCE && c->sup_bw <= ALL;

	/* Each step of balance is no new decision. */
	if (!c->since || strcmp(c->why, why) != 0 ||
	    (c->sup_bw != share && !hops))
		c->since = p->now.s;
	c->sup_bw = share;
	if (c->why != why)
		snprintf(c->why, sizeof(c->why), "%s", why);
	if (p->dry)
		share = s->adaptive ? MPIB_HINT_OWN : 0;
	mpib_agent_hint(p->agent, slot, share);
}

static void decide_rule(struct mpib_agent_policy *p, struct mpib_agent_slot *s)
{
	if (s->choice.rule && s->choice.age == p->age)
		return;
	s->choice.rule = mpib_agent_conf_rule(&p->conf, s);
	s->choice.age = p->age;
}

void mpib_agent_decide(struct mpib_agent_policy *p, unsigned slot)
{
	struct mpib_agent_slot *s = &p->agent->slot[slot];
	char why[MPIB_AGENT_REASON];
	struct objection t[MPIB_RAILS];
	uint32_t share;
	unsigned bad;

	decide_rule(p, s);
	share = ruled_share(s);
	if (s->choice.rule->line)
		snprintf(why, sizeof(why), "rule of line %u",
			 s->choice.rule->line);
	else
		snprintf(why, sizeof(why),
			 p->conf.path[0] ? "no rule" : "the rule");
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		t[r] = objection_of(p, s, r);
	bad = t[MPIB_RAIL_SUP].worst > t[MPIB_RAIL_SOUT].worst ? MPIB_RAIL_SUP
							       : MPIB_RAIL_SOUT;
	if (s->alone) {
		snprintf(why, sizeof(why), "one rail");
	} else if (t[bad].worst > t[!bad].worst) {
		share = bad == MPIB_RAIL_SUP ? 0 : ALL;
		snprintf(why, sizeof(why), "%s left: %.80s", rail_word[bad],
			 t[bad].why);
	} else if (t[bad].worst) {
		snprintf(why, sizeof(why), "both unwell: %.70s", t[bad].why);
	} else {
		for (unsigned r = 0; r < MPIB_RAILS; r++) {
			if (!p->ports.congested[r].since ||
			    p->ports.congested[!r].since)
				continue;
			share = ease(share, r);
			snprintf(why, sizeof(why), "%s eased: %.80s",
				 rail_word[r], p->ports.congested[r].why);
		}
	}
	settle(p, slot, share, why);
}

void mpib_agent_decide_all(struct mpib_agent_policy *p)
{
	mpib_agent_follow(p->agent);
	for (unsigned i = 0; i < MPIB_HINT_SLOTS_MAX; i++) {
		if (p->agent->slot[i].users)
			mpib_agent_decide(p, i);
	}
}

bool mpib_agent_reload(struct mpib_agent_policy *p, const char *path, char *why)
{
	/* Too large for the stack of a thread, and there is one thread. */
	static struct mpib_agent_conf fresh;
	struct mpib_agent_windows windows = { 0 };

	if (!mpib_agent_conf_read(&fresh, path, why))
		return false;
	if (fresh.windows[0] &&
	    !mpib_agent_windows_read(&windows, fresh.windows, why)) {
		mpib_agent_conf_free(&fresh);
		return false;
	}
	mpib_agent_conf_free(&p->conf);
	p->conf = fresh;
	memset(&fresh, 0, sizeof(fresh));
	p->age++;
	mpib_agent_ports_renew(&p->ports);
	mpib_agent_windows_free(&p->windows);
	p->windows = windows;
	return true;
}

void mpib_agent_clock(struct mpib_agent_now *now)
{
	now->s = mpib_clock_ns(CLOCK_REALTIME) / NS;
	now->ns = mpib_now_ns();
}
