/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's rules: parsing one, whom it is for, and the share under balance. */
#include "agent/rule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/text.h"

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
	uint64_t n;

	if (!text || !mpib_number(text, 0, ALL, &n))
		return false;
	rule->share = (uint32_t)n;
	return true;
}

static bool parse_weights(struct mpib_agent_rule *rule, const char *text)
{
	unsigned long sout, sup;
	const char *end;

	if (!text || !rule_number(text, &end, 1000000, &sout) || *end != ':' ||
	    !rule_number(end + 1, &end, 1000000, &sup) || *end ||
	    sout + sup == 0)
		return false;
	rule->share = (uint32_t)(sup * ALL / (sout + sup));
	return true;
}

static bool parse_drain(struct mpib_agent_rule *rule, const char *text)
{
	if (text && !strcmp(text, "sout"))
		rule->share = ALL;
	else if (text && !strcmp(text, "sup"))
		rule->share = 0;
	else
		return false;
	return true;
}

static bool parse_balance(struct mpib_agent_rule *rule, const char *text)
{
	rule->kind = MPIB_RULE_BALANCE;
	return !text;
}

static bool parse_adaptive(struct mpib_agent_rule *rule, const char *text)
{
	rule->kind = MPIB_RULE_ADAPTIVE;
	return !text;
}

static const struct {
	const char *word, *wants;
	/* text: the word behind it, or NULL */
	bool (*parse)(struct mpib_agent_rule *rule, const char *text);
} rules[] = {
	{ "static", "0 to 1024, SUP's share", parse_static },
	{ "weights", "two numbers, as in 400:234 for SOUT:SUP", parse_weights },
	{ "balance", "nothing more", parse_balance },
	{ "adaptive", "nothing more", parse_adaptive },
	{ "drain", "sout or sup", parse_drain },
};

bool mpib_agent_rule_parse(struct mpib_agent_rule *rule, char **words,
			   int count, char *why)
{
	rule->kind = MPIB_RULE_FIXED;
	rule->share = ALL / 2;
	for (unsigned i = 0; count && i < sizeof(rules) / sizeof(rules[0]);
	     i++) {
		if (strcmp(words[0], rules[i].word))
			continue;
		if (count <= 2 &&
		    rules[i].parse(rule, count == 2 ? words[1] : NULL))
			return true;
		return mpib_agent_bad(why, "%s: it takes %s (see --help)",
				      rules[i].word, rules[i].wants);
	}
	return mpib_agent_bad(
		why,
		"rule%s%.64s: %s (give static N, weights SOUT:SUP, balance, "
		"adaptive or drain RAIL)",
		count ? " " : "", count ? words[0] : "",
		count ? "there is none of that name" : "none is given");
}

static bool for_net(struct mpib_agent_rule *rule, const char *text)
{
	rule->has_net = true;
	return mpib_network_parse(text, strlen(text), &rule->net) == 0;
}

static bool for_peer(struct mpib_agent_rule *rule, const char *text)
{
	rule->has_net = true;
	rule->net.bits = 128;
	return mpib_address_parse(text, &rule->net.addr);
}

static bool for_island(struct mpib_agent_rule *rule, const char *text)
{
	rule->where = !strcmp(text, "inside")	 ? MPIB_WHERE_INSIDE
		      : !strcmp(text, "outside") ? MPIB_WHERE_OUTSIDE
						 : MPIB_WHERE_NAMED;
	snprintf(rule->island, sizeof(rule->island), "%s", text);
	return strlen(text) < sizeof(rule->island);
}

static bool for_uid(struct mpib_agent_rule *rule, const char *text)
{
	uint64_t n;

	rule->has_uid = mpib_number(text, 0, UINT32_MAX - 1, &n);
	rule->uid = (uid_t)n;
	return rule->has_uid;
}

static bool for_class(struct mpib_agent_rule *rule, const char *text)
{
	uint64_t n;

	rule->has_class = mpib_number(text, 0, UINT8_MAX, &n);
	rule->class = (unsigned)n;
	return rule->has_class;
}

static const struct {
	const char *word, *wants;
	bool (*parse)(struct mpib_agent_rule *rule, const char *text);
} whom[] = {
	{ "peer", "the address of a node's SOUT", for_peer },
	{ "network", "a network, as 10.1.0.0/16", for_net },
	{ "island", "inside, outside or a name of the list", for_island },
	{ "uid", "the number of a user", for_uid },
	{ "class", "a traffic class, 0 to 255", for_class },
};

bool mpib_agent_rule_parse_for(struct mpib_agent_rule *rule, char **words,
			       int count, char *why)
{
	unsigned i = 0;

	while (count && i < sizeof(whom) / sizeof(whom[0])) {
		if (strcmp(words[0], whom[i].word)) {
			i++;
			continue;
		}
		if (count < 2 || !whom[i].parse(rule, words[1]))
			return mpib_agent_bad(
				why, "%s %.48s: it takes %s (mpib-agent(8))",
				whom[i].word, count < 2 ? "" : words[1],
				whom[i].wants);
		words += 2;
		count -= 2;
		i = 0;
	}
	return mpib_agent_rule_parse(rule, words, count, why);
}

static bool where_fits(const struct mpib_agent_rule *rule,
		       const struct mpib_agent_way *way)
{
	const char *here = way->here, *there = way->there;

	if (rule->where == MPIB_WHERE_ANY)
		return true;
	if (rule->where == MPIB_WHERE_NAMED)
		return there && !strcmp(there, rule->island);
	/* Where either end is of no island nothing is known of the way. */
	return here && there &&
	       !strcmp(here, there) == (rule->where == MPIB_WHERE_INSIDE);
}

bool mpib_agent_rule_fits(const struct mpib_agent_rule *rule,
			  const struct mpib_agent_slot *s,
			  const struct mpib_agent_way *way)
{
	struct in6_addr peer = mpib_address_of_ip(s->dst_ip);

	if (rule->has_net && !mpib_network_has(&rule->net, &peer))
		return false;
	if ((rule->has_uid || rule->has_class) && !s->known)
		return false;
	return (!rule->has_uid || rule->uid == s->uid) &&
	       (!rule->has_class || rule->class == s->class) &&
	       where_fits(rule, way);
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
	/* What a lane moved in months, times a million, has more than 64 bits. */
	rate = (uint64_t)((double)moved * 1e6 / (double)time) + 1;
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
		return s->choice.balance;
	share = (uint32_t)(sup * ALL / (sout + sup));
	if (share < LEAST)
		return LEAST;
	return share > ALL - LEAST ? ALL - LEAST : share;
}
