/* SPDX-License-Identifier: Apache-2.0 */
/* What is right for each connection. */
#include "agent/decide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"

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

/* Whether the connection's rule drains the rail for a time. */
static bool in_maintenance(const struct mpib_agent_rule *rule, unsigned r)
{
	return rule->drains && (rule->from || rule->to) &&
	       rule->share == (r == MPIB_RAIL_SUP ? 0 : ALL);
}

static int peer_by_sout(const void *key, const void *peer)
{
	const uint32_t *sout = key;
	const struct mpib_agent_peer *of = peer;

	return (*sout > of->sout) - (*sout < of->sout);
}

static const struct mpib_agent_peer *
said_by_peer(const struct mpib_agent_policy *p, uint32_t sout)
{
	const struct mpib_agent_peer *of =
		p->peers.n ? bsearch(&sout, p->peers.of, p->peers.n,
				     sizeof(*of), peer_by_sout)
			   : NULL;

	return of && p->now.s - of->said_s <= MPIB_AGENT_PEERS_MAX_S ? of
								     : NULL;
}

static struct objection objection_of(struct mpib_agent_policy *p,
				     struct mpib_agent_slot *s, unsigned r)
{
	const struct mpib_agent_peer *there = said_by_peer(p, s->dst_ip);
	const struct mpib_agent_rule *rule = s->choice.rule;
	struct objection t = { .worst = WELL };
	char why[MPIB_AGENT_REASON];

	if (in_maintenance(rule, r)) {
		snprintf(why, sizeof(why), "maintenance, line %u", rule->line);
		objection_add(&t, MAINTENANCE, why);
	}
	if (there && there->maintenance & 1u << r)
		objection_add(&t, MAINTENANCE, "maintenance at the peer");
	if (p->sick[r].since)
		objection_add(&t, SICK, p->sick[r].why);
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
	    (c->sup_bw != share && !hops)) {
		c->since = p->now.s;
		c->told++;
	}
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
			if (!p->congested[r].since || p->congested[!r].since)
				continue;
			share = ease(share, r);
			snprintf(why, sizeof(why), "%s eased: %.80s",
				 rail_word[r], p->congested[r].why);
		}
	}
	settle(p, slot, share, why);
}

void mpib_agent_decide_all(struct mpib_agent_policy *p)
{
	/* Rules that have their time now, and had not before, are other rules. */
	p->age += mpib_agent_conf_turn(&p->conf, p->now.s);
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

	if (!mpib_agent_conf_read(&fresh, path, why))
		return false;
	mpib_agent_conf_free(&p->conf);
	p->conf = fresh;
	memset(&fresh, 0, sizeof(fresh));
	memset(p->missing, 0, sizeof(p->missing));
	p->age++;
	return true;
}

/* This node's island: a node has one, so that of the first connection that has one
 * is it. */
static const char *own_island(const struct mpib_agent_policy *p)
{
	const char *name = NULL;

	for (unsigned i = 0; i < MPIB_AGENT_OWN && !name; i++) {
		const struct mpib_agent_slot *s = &p->agent->slot[i];

		if (s->users)
			name = mpib_agent_island_of(&p->conf.islands,
						    s->src_ip);
	}
	return name ? name : "";
}

/* Copy text of an operator's file, in which any byte may be. */
static void tell_text(char *to, size_t len, const char *text)
{
	snprintf(to, len, "%s", text);
	mpib_ascii_make(to);
}

/* Peers are told what is drained whoever the user is, if they are of a network. */
static void tell_window(struct mpib_agent_summary *s,
			const struct mpib_agent_rule *rule)
{
	struct mpib_agent_told *to = &s->window[s->windows];

	if (!rule->drains || (!rule->from && !rule->to) || rule->idle ||
	    rule->has_uid || rule->has_class || rule->where != MPIB_WHERE_ANY ||
	    s->windows == MPIB_AGENT_TOLD_MAX)
		return;
	memcpy(to->addr, &rule->net.addr, sizeof(to->addr));
	to->bits = (uint8_t)rule->net.bits;
	to->rail = rule->share == 0 ? MPIB_RAIL_SUP : MPIB_RAIL_SOUT;
	s->windows++;
}

void mpib_agent_summary(const struct mpib_agent_policy *p,
			struct mpib_agent_summary *s)
{
	memset(s, 0, sizeof(*s));
	s->flags = p->dry ? MPIB_AGENT_DRY : 0;
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		const struct mpib_agent_objection *to =
			p->sick[r].since ? &p->sick[r] : &p->congested[r];

		s->sick |= (uint8_t)((p->sick[r].since != 0) << r);
		s->congested |= (uint8_t)((p->congested[r].since != 0) << r);
		s->rail[r].since = to->since;
		tell_text(s->rail[r].why, sizeof(s->rail[r].why), to->why);
	}
	for (unsigned i = 0; i < p->conf.rules; i++)
		tell_window(s, &p->conf.rule[i]);
	tell_text(s->island, sizeof(s->island), own_island(p));
	tell_text(s->config, sizeof(s->config), p->conf.path);
	tell_text(s->fault, sizeof(s->fault), p->fault);
}

void mpib_agent_clock(struct mpib_agent_now *now)
{
	now->s = mpib_clock_ns(CLOCK_REALTIME) / NS;
	now->ns = mpib_now_ns();
}
