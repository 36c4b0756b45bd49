/* SPDX-License-Identifier: Apache-2.0 */
/* Choose SUP's share for the connections to each peer. */
#include "agent/decide.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"

#define NS 1000000000ull
#define ALL MPIB_HINT_SUP_BW_MAX
#define QUARTER (ALL / 4)

static const char *const rail_word[MPIB_RAILS] = { "SOUT", "SUP" };

/* Reasons against the use of a rail, by severity. */
enum objection {
	WELL,
	SICK,
	MAINTENANCE,
};

/* Return whether the connection's rule drains the rail for a limited time. */
static bool in_maintenance(const struct mpib_agent_rule *rule, unsigned r)
{
	return rule->drains && (rule->from || rule->to) &&
	       rule->share == (r == MPIB_RAIL_SUP ? 0 : ALL);
}

/* Find the reason against a rail, and write it to the buffer `why` of
 * MPIB_AGENT_REASON bytes. */
static enum objection objection_of(const struct mpib_agent_policy *p,
				   const struct mpib_agent_rule *rule,
				   unsigned r, char *why)
{
	if (in_maintenance(rule, r)) {
		snprintf(why, MPIB_AGENT_REASON, "maintenance, line %u",
			 rule->line);
		return MAINTENANCE;
	}
	snprintf(why, MPIB_AGENT_REASON, "%s", p->sick[r].why);
	return p->sick[r].since ? SICK : WELL;
}

/* Reduce the share so that the congested rail gets a quarter at most. */
static uint32_t ease(uint32_t share, unsigned congested)
{
	if (congested == MPIB_RAIL_SUP)
		return share > QUARTER ? QUARTER : share;
	return share > ALL || share < ALL - QUARTER ? ALL - QUARTER : share;
}

/* Return the share with which the proxy behaves as without an agent. */
static uint32_t own_share(const struct mpib_agent_slot *s)
{
	return s->adaptive ? MPIB_HINT_OWN : 0;
}

/* Set the share of the slot's connections, and the reason for it. */
static void settle(struct mpib_agent_policy *p, unsigned slot, uint32_t share,
		   const char *why)
{
	struct mpib_agent_slot *s = &p->agent->slot[slot];
	struct mpib_agent_choice *c = &s->choice;

	if (!c->since || strcmp(c->why, why) != 0 || c->sup_bw != share) {
		c->since = p->now.s;
		c->number = ++p->agent->reasons;
	}
	c->sup_bw = share;
	snprintf(c->why, sizeof(c->why), "%s", why);
	mpib_agent_hint(p->agent, slot, p->dry ? own_share(s) : share);
}

void mpib_agent_decide(struct mpib_agent_policy *p, unsigned slot)
{
	struct mpib_agent_slot *s = &p->agent->slot[slot];
	const struct mpib_agent_rule *rule =
		mpib_agent_conf_rule(&p->conf, s->dst_ip, p->now.s);
	uint32_t share =
		rule->share == MPIB_HINT_OWN ? own_share(s) : rule->share;
	char why[MPIB_AGENT_REASON], against[MPIB_RAILS][MPIB_AGENT_REASON];
	enum objection t[MPIB_RAILS];
	unsigned bad;

	if (rule->line)
		snprintf(why, sizeof(why), "rule of line %u", rule->line);
	else
		snprintf(why, sizeof(why),
			 p->conf.path[0] ? "no rule" : "the rule");
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		t[r] = objection_of(p, rule, r, against[r]);
	bad = t[MPIB_RAIL_SUP] > t[MPIB_RAIL_SOUT] ? MPIB_RAIL_SUP
						   : MPIB_RAIL_SOUT;
	if (s->alone) {
		snprintf(why, sizeof(why), "one rail");
	} else if (t[bad] > t[!bad]) {
		share = bad == MPIB_RAIL_SUP ? 0 : ALL;
		snprintf(why, sizeof(why), "%s avoided: %.80s", rail_word[bad],
			 against[bad]);
	} else if (t[bad] != WELL) {
		snprintf(why, sizeof(why), "both unwell: %.70s", against[bad]);
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
	for (unsigned i = 0; i < MPIB_HINT_SLOTS_MAX; i++) {
		if (p->agent->slot[i].users)
			mpib_agent_decide(p, i);
	}
}

bool mpib_agent_reload(struct mpib_agent_policy *p, const char *path, char *why)
{
	/* Static, because it is too large for a stack. There is only one
	 * thread. */
	static struct mpib_agent_conf fresh;

	if (!mpib_agent_conf_read(&fresh, path, why))
		return false;
	p->conf = fresh;
	memset(p->missing, 0, sizeof(p->missing));
	return true;
}

/* Copy text that an operator wrote, and make it ASCII. */
static void tell_text(char *to, size_t len, const char *text)
{
	snprintf(to, len, "%s", text);
	mpib_ascii_make(to);
}

/* Count the timed drains of a rail that are in effect, for some peers or all. */
static uint16_t timed_drains(const struct mpib_agent_policy *p, unsigned r)
{
	uint16_t n = 0;

	for (unsigned i = 0; i < p->conf.rules; i++)
		n += in_maintenance(&p->conf.rule[i], r) &&
		     mpib_agent_rule_holds(&p->conf.rule[i], p->now.s);
	return n;
}

/* Have a rail drained if it is sick, or in maintenance for all peers. But as
 * maintenance is graver than sickness, do not have a sick rail drained while
 * the other rail is in maintenance for any peer. Then the hints alone choose
 * the rail for each peer of this node. */
static void tell_rail(const struct mpib_agent_policy *p, unsigned r,
		      struct mpib_agent_summary *s)
{
	const struct mpib_agent_objection *congested = &p->congested[r];
	/* The rule for a peer that no rule names. */
	const struct mpib_agent_rule *rule =
		mpib_agent_conf_rule(&p->conf, 0, p->now.s);
	char why[MPIB_AGENT_REASON];
	enum objection objection = objection_of(p, rule, r, why);
	bool drain = objection == MAINTENANCE ||
		     (objection == SICK && !timed_drains(p, !r));
	uint64_t since =
		objection == MAINTENANCE ? rule->from : p->sick[r].since;

	if (objection == WELL) {
		since = congested->since;
		snprintf(why, sizeof(why), "%s", congested->why);
	}
	s->sick |= (uint8_t)(drain << r);
	s->congested |= (uint8_t)((!drain && since) << r);
	s->windows = (uint16_t)(s->windows + timed_drains(p, r));
	s->rail[r].since = since;
	tell_text(s->rail[r].why, sizeof(s->rail[r].why), why);
}

void mpib_agent_summary(const struct mpib_agent_policy *p,
			struct mpib_agent_summary *s)
{
	memset(s, 0, sizeof(*s));
	s->flags = p->dry ? MPIB_AGENT_DRY : 0;
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		tell_rail(p, r, s);
	tell_text(s->config, sizeof(s->config), p->conf.path);
	tell_text(s->fault, sizeof(s->fault), p->fault);
}

void mpib_agent_clock(struct mpib_agent_now *now)
{
	now->s = mpib_clock_ns(CLOCK_REALTIME) / NS;
	now->ns = mpib_now_ns();
}
