/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing the agent's configuration file. */
#include "agent/conf.h"

#include <stdio.h>
#include <string.h>

#include "base/suggest.h"

static bool take_rule(struct mpib_agent_conf *c, char **words, unsigned count,
		      unsigned line, char *why)
{
	struct mpib_agent_rule *rule = &c->rule[c->rules];

	if (c->rules == MPIB_AGENT_RULES)
		return mpib_agent_bad(why,
				      "rule: there are more than %u (join some "
				      "by network or island)",
				      MPIB_AGENT_RULES);
	*rule = (struct mpib_agent_rule){ .line = line };
	if (!mpib_agent_rule_parse_for(rule, words, (int)count, why))
		return false;
	c->rules++;
	return true;
}

static bool take_agent_port(struct mpib_agent_conf *c, char **words,
			    unsigned count, unsigned line, char *why)
{
	struct mpib_agent_port *port = &c->port[c->ports];
	uint64_t number = 0;

	(void)line;
	if (c->ports == MPIB_AGENT_PORTS)
		return mpib_agent_bad(
			why,
			"port: there are more than %u (name those "
			"of this node alone)",
			MPIB_AGENT_PORTS);
	*port = (struct mpib_agent_port){ .rail = MPIB_RAIL_SOUT };
	if (count > 0 && !strcmp(words[0], "sup"))
		port->rail = MPIB_RAIL_SUP;
	else if (count == 0 || strcmp(words[0], "sout") != 0)
		goto bad;
	/* The name is a part of a path. */
	if (count < 3 || count > 4 || strchr(words[1], '/') ||
	    words[1][0] == '.' || strlen(words[1]) >= sizeof(port->device) ||
	    !mpib_agent_number(words[2], 1, 255, &number) ||
	    (count == 4 &&
	     !mpib_agent_number(words[3], 1, 1000000, &port->gbps)))
		goto bad;
	snprintf(port->device, sizeof(port->device), "%s", words[1]);
	port->number = (unsigned)number;
	c->ports++;
	return true;
bad:
	return mpib_agent_bad(why, "port: it takes sout or sup, a device, its "
				   "port and perhaps Gb/s (as sup mlx5_1 1 "
				   "400)");
}

static bool take_limit(struct mpib_agent_conf *c, char **words, unsigned count,
		       bool congested, char *why)
{
	struct mpib_agent_limit *limit = &c->limit[c->limits];
	const char *name = congested ? "congested" : "sick";

	if (c->limits == MPIB_AGENT_LIMITS)
		return mpib_agent_bad(
			why,
			"%s: there are more than %u limits (leave "
			"some away)",
			name, MPIB_AGENT_LIMITS);
	*limit = (struct mpib_agent_limit){ .congested = congested };
	if (count != 2 || strlen(words[0]) >= sizeof(limit->counter) ||
	    strchr(words[0], '/') || words[0][0] == '.' ||
	    !mpib_agent_number(words[1], 0, UINT64_MAX, &limit->per_s))
		return mpib_agent_bad(
			why,
			"%s: it takes a counter of the port and a "
			"number a second (as symbol_error 10)",
			name);
	snprintf(limit->counter, sizeof(limit->counter), "%s", words[0]);
	c->limits++;
	return true;
}

static bool take_sick(struct mpib_agent_conf *c, char **words, unsigned count,
		      unsigned line, char *why)
{
	(void)line;
	return take_limit(c, words, count, false, why);
}

static bool take_congested(struct mpib_agent_conf *c, char **words,
			   unsigned count, unsigned line, char *why)
{
	(void)line;
	return take_limit(c, words, count, true, why);
}

/* One number. */
static bool take_number(uint64_t *n, const char *name, uint64_t least,
			char **words, unsigned count, char *why)
{
	if (count == 1 && mpib_agent_number(words[0], least, 1000000, n))
		return true;
	return mpib_agent_bad(why,
			      "%s %.48s: it takes a number (%u to 1000000)",
			      name, count ? words[0] : "", (unsigned)least);
}

static bool take_slow(struct mpib_agent_conf *c, char **words, unsigned count,
		      unsigned line, char *why)
{
	(void)line;
	return take_number(&c->slow, "slow", 2, words, count, why);
}

static bool take_hold(struct mpib_agent_conf *c, char **words, unsigned count,
		      unsigned line, char *why)
{
	(void)line;
	return take_number(&c->hold_s, "hold", 1, words, count, why);
}

static bool take_lead(struct mpib_agent_conf *c, char **words, unsigned count,
		      unsigned line, char *why)
{
	(void)line;
	return take_number(&c->lead_s, "lead", 0, words, count, why);
}

/* The path of a file, once. */
static bool take_path(char *path, size_t len, const char *name, char **words,
		      unsigned count, char *why)
{
	if (count != 1 || words[0][0] != '/' || strlen(words[0]) >= len)
		return mpib_agent_bad(
			why,
			"%s %.48s: it takes a file (its path from "
			"/, of less than %zu bytes)",
			name, count ? words[0] : "", len);
	if (*path)
		return mpib_agent_bad(why,
				      "%s: it is given twice (join the "
				      "files)",
				      name);
	snprintf(path, len, "%s", words[0]);
	return true;
}

static bool take_windows(struct mpib_agent_conf *c, char **words,
			 unsigned count, unsigned line, char *why)
{
	(void)line;
	return take_path(c->windows, sizeof(c->windows), "maintenance", words,
			 count, why);
}

static bool take_islands(struct mpib_agent_conf *c, char **words,
			 unsigned count, unsigned line, char *why)
{
	(void)line;
	return take_path(c->islands_path, sizeof(c->islands_path), "islands",
			 words, count, why) &&
	       mpib_agent_islands_read(&c->islands, c->islands_path, why);
}

static const struct {
	const char *word;
	bool (*take)(struct mpib_agent_conf *c, char **words, unsigned count,
		     unsigned line, char *why);
} statements[] = {
	{ "rule", take_rule },	     { "port", take_agent_port },
	{ "sick", take_sick },	     { "congested", take_congested },
	{ "slow", take_slow },	     { "hold", take_hold },
	{ "lead", take_lead },	     { "maintenance", take_windows },
	{ "islands", take_islands },
};

static bool conf_take(void *ctx, char **words, unsigned count, unsigned line,
		      char *why)
{
	struct mpib_suggest s = { .typed = words[0] };
	char remedy[64];

	for (unsigned i = 0; i < sizeof(statements) / sizeof(statements[0]);
	     i++) {
		mpib_suggest_try(&s, statements[i].word);
		if (!strcmp(words[0], statements[i].word))
			return statements[i].take(ctx, words + 1, count - 1,
						  line, why);
	}
	return mpib_agent_bad(why, "unknown word \"%.48s\" (%s)", words[0],
			      mpib_suggest_remedy(&s,
						  "mpib-agent(8) lists them",
						  remedy, sizeof(remedy)));
}

/* What one line cannot tell. */
static bool conf_whole(const struct mpib_agent_conf *c, char *why)
{
	for (unsigned i = 0; i < c->rules; i++) {
		if (c->rule[i].where == MPIB_WHERE_ANY || c->islands_path[0])
			continue;
		return mpib_agent_bad(
			why,
			"%.80s:%u: island: no list says which node "
			"is of which (give islands FILE)",
			c->path, c->rule[i].line);
	}
	if (c->limits && !c->ports)
		return mpib_agent_bad(
			why,
			"%.80s: sick, congested: no port is named "
			"(give port RAIL DEVICE PORT)",
			c->path);
	return true;
}

bool mpib_agent_conf_read(struct mpib_agent_conf *c, const char *path,
			  char *why)
{
	*c = (struct mpib_agent_conf){ .hold_s = 30, .lead_s = 10 };
	if (strlen(path) >= sizeof(c->path))
		return mpib_agent_bad(why,
				      "%.96s: the path is too long (give a "
				      "shorter one)",
				      path);
	snprintf(c->path, sizeof(c->path), "%s", path);
	if (mpib_agent_words_read(path, conf_take, c, why) &&
	    conf_whole(c, why))
		return true;
	mpib_agent_conf_free(c);
	return false;
}

const struct mpib_agent_rule *
mpib_agent_conf_rule(const struct mpib_agent_conf *c,
		     const struct mpib_agent_slot *s)
{
	static const struct mpib_agent_rule own = { .kind = MPIB_RULE_ADAPTIVE,
						    .share = 512 };

	/* The list is long: once for all rules. */
	const struct mpib_agent_way way = {
		.here = mpib_agent_island_of(&c->islands, s->src_ip),
		.there = mpib_agent_island_of(&c->islands, s->dst_ip),
	};

	for (unsigned i = 0; i < c->rules; i++) {
		if (mpib_agent_rule_fits(&c->rule[i], s, &way))
			return &c->rule[i];
	}
	return &own;
}

bool mpib_agent_conf_looks(const struct mpib_agent_conf *c)
{
	/* Of a file's rules the status tells whose connections they steer. */
	return c->path[0] || c->rule[0].kind != MPIB_RULE_FIXED;
}

void mpib_agent_conf_free(struct mpib_agent_conf *c)
{
	mpib_agent_islands_free(&c->islands);
	memset(c, 0, sizeof(*c));
}
