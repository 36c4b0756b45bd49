/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's file: its lines, and its rules with their conditions. */
#include "agent/rules.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"

#define ALL MPIB_HINT_SUP_BW_MAX
#define BLANK " \t\r\n"
#define LINE_BYTES 501 /* including the newline */

bool mpib_agent_bad(char *why, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, MPIB_AGENT_WHY, fmt, ap);
	va_end(ap);
	return false;
}

/* Parse sout or sup. */
static bool is_rail(const char *word, unsigned *rail)
{
	*rail = !strcmp(word, "sup") ? MPIB_RAIL_SUP : MPIB_RAIL_SOUT;
	return *rail == MPIB_RAIL_SUP || !strcmp(word, "sout");
}

bool mpib_agent_rule_parse(struct mpib_agent_rule *rule, char **words,
			   int count, char *why)
{
	const char *word = count ? words[0] : "";
	const char *arg = count == 2 ? words[1] : "";
	unsigned rail;
	uint64_t n;

	if (!strcmp(word, "adaptive") && count == 1) {
		rule->share = MPIB_HINT_OWN;
		return true;
	}
	if (!strcmp(word, "static") && mpib_number(arg, 0, ALL, &n)) {
		rule->share = (uint32_t)n;
		return true;
	}
	if (!strcmp(word, "drain") && is_rail(arg, &rail)) {
		rule->share = rail == MPIB_RAIL_SUP ? 0 : ALL;
		return rule->drains = true;
	}
	return mpib_agent_bad(why,
			      "%.48s%s%.48s: not a rule (give \"static N\", "
			      "with SUP's N parts of 1024, \"drain sout\", "
			      "\"drain sup\" or \"adaptive\")",
			      *word ? word : "rule", *arg ? " " : "", arg);
}

static bool for_peer(struct mpib_agent_rule *rule, const char *text)
{
	rule->net.bits = 128;
	return mpib_address_parse(text, &rule->net.addr) ||
	       mpib_network_parse(text, strlen(text), &rule->net) == 0;
}

static bool rule_time(const char *text, uint64_t *s)
{
	struct tm tm = { 0 };
	const char *end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm);
	int day = tm.tm_mday;
	time_t t = timegm(&tm);

	*s = (uint64_t)t;
	/* If the month does not have that day, timegm() changed the day. */
	return end && !*end && t > 0 && tm.tm_mday == day;
}

static bool for_from(struct mpib_agent_rule *rule, const char *text)
{
	return rule_time(text, &rule->from);
}

static bool for_to(struct mpib_agent_rule *rule, const char *text)
{
	return rule_time(text, &rule->to) && rule->to > rule->from;
}

static const struct {
	const char *word, *wants;
	bool (*parse)(struct mpib_agent_rule *rule, const char *text);
} whom[] = {
	{ "peer", "the address of a node's SOUT", for_peer },
	{ "network", "a network, as 10.1.0.0/16", for_peer },
	{ "from", "UTC, as 2030-01-31T20:00:00Z", for_from },
	{ "to", "UTC, as 2030-01-31T20:00:00Z, later than from", for_to },
};

/* Parse a rule of the file. It begins with its conditions. */
static bool rule_parse_for(struct mpib_agent_rule *rule, char **words,
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
				why, "%s %.48s: expected %s (mpib-agent(8))",
				whom[i].word, count < 2 ? "" : words[1],
				whom[i].wants);
		words += 2;
		count -= 2;
		i = 0;
	}
	return mpib_agent_rule_parse(rule, words, count, why);
}

/* A line of the file: its first word, the `count` words after that, and the
 * line's number. */
struct conf_line {
	const char *word;
	char **words;
	unsigned count, number;
	char *why;
};

static bool take_rule(struct mpib_agent_conf *c, const struct conf_line *l)
{
	struct mpib_agent_rule *rule = &c->rule[c->rules];

	if (c->rules == MPIB_AGENT_RULES)
		return mpib_agent_bad(l->why,
				      "rule: there are more than %u (combine "
				      "peers into networks)",
				      MPIB_AGENT_RULES);
	*rule = (struct mpib_agent_rule){ .line = l->number };
	if (!rule_parse_for(rule, l->words, (int)l->count, l->why))
		return false;
	c->rules++;
	return true;
}

static bool take_speed(struct mpib_agent_conf *c, const struct conf_line *l)
{
	unsigned rail;

	if (l->count == 2 && is_rail(l->words[0], &rail) &&
	    mpib_number(l->words[1], 1, 1000000, &c->speed[rail]))
		return true;
	return mpib_agent_bad(l->why, "speed: expected sout or sup and Gb/s "
				      "(as speed sup 400)");
}

/* Parse a line that begins with "sick" or "congested". */
static bool take_limit(struct mpib_agent_conf *c, const struct conf_line *l)
{
	struct mpib_agent_limit *limit = &c->limit[c->limits];
	char **words = l->words;
	unsigned count = l->count, rail;

	if (c->limits == MPIB_AGENT_LIMITS)
		return mpib_agent_bad(
			l->why,
			"%s: there are more than %u limits (remove some)",
			l->word, MPIB_AGENT_LIMITS);
	*limit = (struct mpib_agent_limit){
		.congested = !strcmp(l->word, "congested"), .rails = 3
	};
	if (count == 3 && is_rail(words[0], &rail)) {
		limit->rails = (uint8_t)(1u << rail);
		words++;
		count--;
	}
	if (count != 2 || strlen(words[0]) >= sizeof(limit->counter) ||
	    !mpib_number(words[1], 0, UINT64_MAX, &limit->per_s))
		return mpib_agent_bad(
			l->why,
			"%s: expected a counter of mpibctl counters and a "
			"number a second (as symbol_error 10), after sout or "
			"sup if it is for one rail",
			l->word);
	snprintf(limit->counter, sizeof(limit->counter), "%s", words[0]);
	c->limits++;
	return true;
}

static bool take_hold(struct mpib_agent_conf *c, const struct conf_line *l)
{
	const char *text = l->count == 1 ? l->words[0] : "";

	if (mpib_number(text, 1, 1000000, &c->hold_s))
		return true;
	return mpib_agent_bad(
		l->why, "hold %.48s: expected seconds (1 to 1000000)", text);
}

static const struct {
	const char *word;
	bool (*take)(struct mpib_agent_conf *c, const struct conf_line *l);
} conf_words[] = {
	{ "rule", take_rule },	{ "speed", take_speed },
	{ "sick", take_limit }, { "congested", take_limit },
	{ "hold", take_hold },
};

static bool conf_take_words(struct mpib_agent_conf *c, char **words,
			    unsigned count, unsigned line, char *why)
{
	struct conf_line l = { words[0], words + 1, count - 1, line, why };
	struct mpib_suggest s = { .typed = words[0] };
	char remedy[64];

	for (unsigned i = 0; i < sizeof(conf_words) / sizeof(conf_words[0]);
	     i++) {
		mpib_suggest_try(&s, conf_words[i].word);
		if (!strcmp(words[0], conf_words[i].word))
			return conf_words[i].take(c, &l);
	}
	return mpib_agent_bad(why, "unknown word \"%.48s\" (%s)", words[0],
			      mpib_suggest_remedy(&s,
						  "mpib-agent(8) lists them",
						  remedy, sizeof(remedy)));
}

static bool take_line(struct mpib_agent_conf *c, char *text, size_t len,
		      unsigned line, char *why)
{
	char *words[MPIB_AGENT_WORDS], *rest;
	unsigned count = 0;

	if (len > LINE_BYTES)
		return mpib_agent_bad(why, "the line is too long (give at most "
					   "500 bytes)");
	/* A crash may leave NUL bytes in a file that was being written. */
	if (strlen(text) != len)
		return mpib_agent_bad(why, "the line contains a NUL byte "
					   "(write the file again)");
	text[strcspn(text, "#")] = '\0';
	for (char *w = strtok_r(text, BLANK, &rest); w;
	     w = strtok_r(NULL, BLANK, &rest)) {
		if (count == MPIB_AGENT_WORDS)
			return mpib_agent_bad(why,
					      "the line has too many words "
					      "(give at most %u)",
					      MPIB_AGENT_WORDS);
		words[count++] = w;
	}
	return count == 0 || conf_take_words(c, words, count, line, why);
}

void mpib_agent_conf_init(struct mpib_agent_conf *c)
{
	*c = (struct mpib_agent_conf){ .hold_s = 30 };
}

/* Read the file line by line, up to the first line with an error. */
bool mpib_agent_conf_read(struct mpib_agent_conf *c, const char *path,
			  char *why)
{
	char reason[MPIB_AGENT_WHY] = "", *text = NULL;
	unsigned line = 0;
	const char *bad;
	size_t size = 0;
	bool ok = true;
	ssize_t n = 0;
	FILE *in;

	mpib_agent_conf_init(c);
	if (strlen(path) >= sizeof(c->path))
		return mpib_agent_bad(why,
				      "%.96s: the path is too long (give a "
				      "shorter one)",
				      path);
	snprintf(c->path, sizeof(c->path), "%s", path);
	if (mpib_text_open(&in, path, &bad) < 0)
		return mpib_agent_bad(why, "%.120s: %s (check the path)", path,
				      bad);
	while (ok && (n = getline(&text, &size, in)) > 0) {
		line++;
		ok = take_line(c, text, (size_t)n, line, reason);
	}
	if (!ok)
		mpib_agent_bad(why, "%.80s:%u: %.160s", path, line, reason);
	else if (!feof(in))
		ok = mpib_agent_bad(why, "%.120s: %s (check the path)", path,
				    strerror(errno));
	free(text);
	fclose(in);
	return ok;
}

bool mpib_agent_rule_holds(const struct mpib_agent_rule *rule, uint64_t now_s)
{
	return now_s >= rule->from && (!rule->to || now_s < rule->to);
}

const struct mpib_agent_rule *
mpib_agent_conf_rule(const struct mpib_agent_conf *c, uint32_t peer,
		     uint64_t now_s)
{
	static const struct mpib_agent_rule own = { .share = MPIB_HINT_OWN };
	struct in6_addr addr = mpib_address_of_ip(peer);

	for (unsigned i = 0; i < c->rules; i++) {
		const struct mpib_agent_rule *rule = &c->rule[i];

		if (mpib_agent_rule_holds(rule, now_s) &&
		    mpib_network_has(&rule->net, &addr))
			return rule;
	}
	return &own;
}
