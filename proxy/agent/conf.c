/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing the agent's configuration file. */
#include "agent/conf.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "base/text.h"

/* A line of the file: what stands behind its first word, which is this one. */
struct conf_line {
	const struct conf_word *is;
	char **words;
	unsigned count, number;
	char *why;
};

struct conf_word {
	const char *word;
	bool (*take)(struct mpib_agent_conf *c, const struct conf_line *l);
	size_t field; /* where what it gives is kept, */
	uint64_t least; /* a number of at least this, */
	bool congested; /* or a limit of this kind */
};

static bool take_rule(struct mpib_agent_conf *c, const struct conf_line *l)
{
	struct mpib_agent_rule *rule = &c->rule[c->rules];

	if (c->rules == MPIB_AGENT_RULES)
		return mpib_agent_bad(l->why,
				      "rule: there are more than %u (join some "
				      "by network or island)",
				      MPIB_AGENT_RULES);
	*rule = (struct mpib_agent_rule){ .line = l->number };
	if (!mpib_agent_rule_parse_for(rule, l->words, (int)l->count, l->why))
		return false;
	c->rules++;
	return true;
}

static bool take_agent_port(struct mpib_agent_conf *c,
			    const struct conf_line *l)
{
	struct mpib_agent_port *port = &c->port[c->ports];
	char **words = l->words;
	uint64_t number = 0;

	if (c->ports == MPIB_AGENT_PORTS)
		return mpib_agent_bad(
			l->why,
			"port: there are more than %u (name those "
			"of this node alone)",
			MPIB_AGENT_PORTS);
	*port = (struct mpib_agent_port){ .rail = MPIB_RAIL_SOUT };
	if (l->count > 0 && !strcmp(words[0], "sup"))
		port->rail = MPIB_RAIL_SUP;
	else if (l->count == 0 || strcmp(words[0], "sout") != 0)
		goto bad;
	/* The name is a part of a path. */
	if (l->count < 3 || l->count > 4 || strchr(words[1], '/') ||
	    words[1][0] == '.' || strlen(words[1]) >= sizeof(port->device) ||
	    !mpib_number(words[2], 1, 255, &number) ||
	    (l->count == 4 && !mpib_number(words[3], 1, 1000000, &port->gbps)))
		goto bad;
	snprintf(port->device, sizeof(port->device), "%s", words[1]);
	port->number = (unsigned)number;
	c->ports++;
	return true;
bad:
	return mpib_agent_bad(l->why,
			      "port: it takes sout or sup, a device, its "
			      "port and perhaps Gb/s (as sup mlx5_1 1 "
			      "400)");
}

static bool take_limit(struct mpib_agent_conf *c, const struct conf_line *l)
{
	struct mpib_agent_limit *limit = &c->limit[c->limits];
	char **words = l->words;

	if (c->limits == MPIB_AGENT_LIMITS)
		return mpib_agent_bad(
			l->why,
			"%s: there are more than %u limits (leave "
			"some away)",
			l->is->word, MPIB_AGENT_LIMITS);
	*limit = (struct mpib_agent_limit){ .congested = l->is->congested };
	if (l->count != 2 || strlen(words[0]) >= sizeof(limit->counter) ||
	    strchr(words[0], '/') || words[0][0] == '.' ||
	    !mpib_number(words[1], 0, UINT64_MAX, &limit->per_s))
		return mpib_agent_bad(
			l->why,
			"%s: it takes a counter of the port and a "
			"number a second (as symbol_error 10)",
			l->is->word);
	snprintf(limit->counter, sizeof(limit->counter), "%s", words[0]);
	c->limits++;
	return true;
}

static bool take_number(struct mpib_agent_conf *c, const struct conf_line *l)
{
	uint64_t *n = (uint64_t *)(void *)((char *)c + l->is->field);

	if (l->count == 1 && mpib_number(l->words[0], l->is->least, 1000000, n))
		return true;
	return mpib_agent_bad(l->why,
			      "%s %.48s: it takes a number (%u to 1000000)",
			      l->is->word, l->count ? l->words[0] : "",
			      (unsigned)l->is->least);
}

/* The path of a file, once. */
static bool take_path(struct mpib_agent_conf *c, const struct conf_line *l)
{
	char *path = (char *)c + l->is->field;

	if (l->count != 1 || l->words[0][0] != '/' ||
	    strlen(l->words[0]) >= MPIB_AGENT_PATH)
		return mpib_agent_bad(
			l->why,
			"%s %.48s: it takes a file (its path from "
			"/, of less than %u bytes)",
			l->is->word, l->count ? l->words[0] : "",
			MPIB_AGENT_PATH);
	if (*path)
		return mpib_agent_bad(l->why,
				      "%s: it is given twice (join the "
				      "files)",
				      l->is->word);
	snprintf(path, MPIB_AGENT_PATH, "%s", l->words[0]);
	return true;
}

static bool take_islands(struct mpib_agent_conf *c, const struct conf_line *l)
{
	return take_path(c, l) &&
	       mpib_agent_islands_read(&c->islands, c->islands_path, l->why);
}

#define FIELD(name) .field = offsetof(struct mpib_agent_conf, name)

static const struct conf_word conf_words[] = {
	{ .word = "rule", .take = take_rule },
	{ .word = "port", .take = take_agent_port },
	{ .word = "sick", .take = take_limit },
	{ .word = "congested", .take = take_limit, .congested = true },
	{ .word = "slow", .take = take_number, FIELD(slow), .least = 2 },
	{ .word = "hold", .take = take_number, FIELD(hold_s), .least = 1 },
	{ .word = "lead", .take = take_number, FIELD(lead_s), .least = 0 },
	{ .word = "maintenance", .take = take_path, FIELD(windows) },
	{ .word = "islands", .take = take_islands, FIELD(islands_path) },
};

static bool conf_take(void *ctx, char **words, unsigned count, unsigned line,
		      char *why)
{
	struct conf_line l = { NULL, words + 1, count - 1, line, why };
	struct mpib_suggest s = { .typed = words[0] };
	char remedy[64];

	for (unsigned i = 0; i < sizeof(conf_words) / sizeof(conf_words[0]);
	     i++) {
		l.is = &conf_words[i];
		mpib_suggest_try(&s, l.is->word);
		if (!strcmp(words[0], l.is->word))
			return l.is->take(ctx, &l);
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
