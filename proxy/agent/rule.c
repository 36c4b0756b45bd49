/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's rules: parsing one, and computing the share under balance. */
#include "agent/rule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALL MPIB_HINT_SUP_BW_MAX
#define LEAST (ALL / 32)
/* A rail's rate is computed only when it moved at least so many bytes. */
#define BYTES_MIN (64u << 10)

static bool rule_number(const char *text, const char **end, unsigned long max,
			unsigned long *n)
{
	char *stop;

	if (*text < '0' || *text > '9')
		return false;
	*n = strtoul(text, &stop, 10);
	*end = stop;
	return *n <= max;
}

static bool parse_static(struct mpib_agent_rule *rule, const char *text)
{
	const char *end;
	unsigned long n;

	if (!rule_number(text, &end, ALL, &n) || *end)
		return false;
	rule->share = (uint32_t)n;
	return true;
}

static bool parse_weights(struct mpib_agent_rule *rule, const char *text)
{
	unsigned long sout, sup;
	const char *end;

	if (!rule_number(text, &end, 1000000, &sout) || *end != ':' ||
	    !rule_number(end + 1, &end, 1000000, &sup) || *end ||
	    sout + sup == 0)
		return false;
	rule->share = (uint32_t)(sup * ALL / (sout + sup));
	return true;
}

static bool parse_drain(struct mpib_agent_rule *rule, const char *text)
{
	if (!strcmp(text, "sout"))
		rule->share = ALL;
	else if (!strcmp(text, "sup"))
		rule->share = 0;
	else
		return false;
	return true;
}

static const struct {
	const char *word, *wants;
	bool (*parse)(struct mpib_agent_rule *rule, const char *text);
} rules[] = {
	{ "static", "0 to 1024, SUP's share", parse_static },
	{ "weights", "two numbers, as in 400:234 for SOUT:SUP", parse_weights },
	{ "balance", "nothing more", NULL },
	{ "drain", "sout or sup", parse_drain },
};

bool mpib_agent_rule_parse(struct mpib_agent_rule *rule, char **words,
			   int count, char *why)
{
	*rule = (struct mpib_agent_rule){ .share = ALL / 2 };
	for (unsigned i = 0; count && i < sizeof(rules) / sizeof(rules[0]);
	     i++) {
		if (strcmp(words[0], rules[i].word))
			continue;
		if (!rules[i].parse && count == 1) {
			rule->kind = MPIB_RULE_BALANCE;
			return true;
		}
		if (rules[i].parse && count == 2 &&
		    rules[i].parse(rule, words[1]))
			return true;
		snprintf(why, MPIB_AGENT_WHY, "%s: it takes %s (see --help)",
			 rules[i].word, rules[i].wants);
		return false;
	}
	snprintf(why, MPIB_AGENT_WHY,
		 "command line: %s%.64s%s (give static N, weights SOUT:SUP, "
		 "balance or drain RAIL)",
		 count ? "there is no rule \"" : "no rule is given",
		 count ? words[0] : "", count ? "\"" : "");
	return false;
}

static void rule_look(struct mpib_agent_slot_rail *r, uint64_t bytes,
		      uint64_t busy)
{
	uint64_t moved = bytes - r->acked_bytes, time = busy - r->busy_ns;
	uint64_t rate;

	/* Counters that went back belong to a new lane: start from them. */
	if (bytes < r->acked_bytes || busy < r->busy_ns) {
		r->acked_bytes = bytes;
		r->busy_ns = busy;
		return;
	}
	if (moved < BYTES_MIN || time == 0)
		return;
	rate = moved * 1000000 / time + 1;
	r->rate = r->rate ? (r->rate + rate) / 2 : rate;
	r->acked_bytes = bytes;
	r->busy_ns = busy;
}

uint32_t mpib_agent_balance(struct mpib_agent_slot *s,
			    const struct mpib_agent_sample *now)
{
	uint64_t sout, sup;
	uint32_t share;

	for (unsigned r = 0; r < MPIB_RAILS; r++)
		rule_look(&s->rail[r], now->acked_bytes[r], now->busy_ns[r]);
	sout = s->rail[MPIB_RAIL_SOUT].rate;
	sup = s->rail[MPIB_RAIL_SUP].rate;
	if (!sout || !sup)
		return s->sup_bw;
	share = (uint32_t)(sup * ALL / (sout + sup));
	if (share < LEAST)
		return LEAST;
	return share > ALL - LEAST ? ALL - LEAST : share;
}
