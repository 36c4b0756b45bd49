/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's file: its lines, rules and whom they are for, and islands. */
#include "agent/rules.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/address.h"
#include "base/text.h"
#include "base/xalloc.h"

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
	return rule->drains = true;
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

static bool rule_time(const char *text, uint64_t *s)
{
	struct tm tm = { 0 };
	const char *end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm);
	int day = tm.tm_mday;
	time_t t = timegm(&tm);

	*s = (uint64_t)t;
	/* timegm() makes another day of one that the month has not. */
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
	{ "network", "a network, as 10.1.0.0/16", for_net },
	{ "island", "inside, outside or a name of the list", for_island },
	{ "uid", "the number of a user", for_uid },
	{ "class", "a traffic class, 0 to 255", for_class },
	{ "from", "UTC, as 2030-01-31T20:00:00Z", for_from },
	{ "to", "UTC, as 2030-01-31T20:00:00Z, behind from", for_to },
};

/* Parse a rule of the file, which says first whom it is for. */
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
				why, "%s %.48s: it takes %s (mpib-agent(8))",
				whom[i].word, count < 2 ? "" : words[1],
				whom[i].wants);
		words += 2;
		count -= 2;
		i = 0;
	}
	return mpib_agent_rule_parse(rule, words, count, why);
}

/* The islands of a connection's ends; NULL: of none. */
struct rule_way {
	const char *here, *there;
};

static bool where_fits(const struct mpib_agent_rule *rule,
		       const struct rule_way *way)
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

static bool rule_fits(const struct mpib_agent_rule *rule,
		      const struct mpib_agent_slot *s,
		      const struct rule_way *way)
{
	struct in6_addr peer = mpib_address_of_ip(s->dst_ip);

	if (rule->idle)
		return false;
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

/* Reading files of words. */

/* Take the words of a line. False: why holds "what: why (remedy)". */
typedef bool words_fn(void *ctx, char **words, unsigned count, unsigned line,
		      char *why);

#define BLANK " \t\r\n"
#define LINE_BYTES 502 /* a newline and the 0 behind it included */

bool mpib_agent_bad(char *why, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, MPIB_AGENT_WHY, fmt, ap);
	va_end(ap);
	return false;
}

/* Returns how many words there are; more than MPIB_AGENT_WORDS: too many. */
static unsigned words_split(char *text, char **words)
{
	unsigned n = 0;
	char *rest;

	text[strcspn(text, "#")] = '\0';
	for (char *w = strtok_r(text, BLANK, &rest); w;
	     w = strtok_r(NULL, BLANK, &rest)) {
		if (n == MPIB_AGENT_WORDS)
			return n + 1;
		words[n++] = w;
	}
	return n;
}

static bool words_take(char *text, size_t len, words_fn *take, void *ctx,
		       unsigned line, char *why)
{
	char *words[MPIB_AGENT_WORDS];
	unsigned count;

	if (len >= LINE_BYTES)
		return mpib_agent_bad(why, "the line is too long (give at most "
					   "500 bytes)");
	/* Bytes 0 are what a crash may leave of a file that was written. */
	if (strlen(text) != len)
		return mpib_agent_bad(why, "the line contains zero bytes "
					   "(write the file again)");
	count = words_split(text, words);
	if (count > MPIB_AGENT_WORDS)
		return mpib_agent_bad(why,
				      "the line has too many words (give at "
				      "most %u)",
				      MPIB_AGENT_WORDS);
	return count == 0 || take(ctx, words, count, line, why);
}

/* Read the file line by line, up to the first line that is refused. */
static bool words_read(const char *path, words_fn *take, void *ctx, char *why)
{
	char text[LINE_BYTES], reason[MPIB_AGENT_WHY] = "";
	struct mpib_text_file in;
	unsigned line = 0;
	const char *bad;
	bool ok = true;
	ssize_t n = 0;

	if (mpib_text_open(&in, path, &bad) < 0)
		return mpib_agent_bad(why, "%.120s: %s (see the path)", path,
				      bad);
	while (ok && (n = mpib_text_line(&in, text, sizeof(text))) > 0) {
		line++;
		ok = words_take(text, (size_t)n, take, ctx, line, reason);
	}
	if (!ok)
		mpib_agent_bad(why, "%.80s:%u: %.160s", path, line, reason);
	else if (n < 0)
		ok = mpib_agent_bad(why, "%.120s: %s (see the path)", path,
				    strerror((int)-n));
	mpib_text_close(&in);
	return ok;
}

/* The list of islands. */

static bool islands_take(void *ctx, char **words, unsigned count, unsigned line,
			 char *why)
{
	struct mpib_agent_islands *list = ctx;
	struct mpib_agent_island *one;

	(void)line;
	if (count != 2 || strlen(words[1]) >= MPIB_AGENT_ISLAND_MAX)
		return mpib_agent_bad(why,
				      "%.48s: it takes a network and the name "
				      "of an island (as 10.1.0.0/16 rack1)",
				      words[0]);
	if (list->n == MPIB_AGENT_ISLANDS_MAX)
		return mpib_agent_bad(why,
				      "there are more than %u lines (join "
				      "networks of one island)",
				      MPIB_AGENT_ISLANDS_MAX);
	list->of = mpib_xrealloc(list->of, (list->n + 1) * sizeof(*one));
	one = &list->of[list->n];
	memset(one, 0, sizeof(*one));
	one->net.bits = 128;
	if (mpib_network_parse(words[0], strlen(words[0]), &one->net) < 0 &&
	    !mpib_address_parse(words[0], &one->net.addr))
		return mpib_agent_bad(why,
				      "%.48s: it is no network (as "
				      "10.1.0.0/16, with zeros behind it)",
				      words[0]);
	snprintf(one->name, sizeof(one->name), "%s", words[1]);
	list->n++;
	return true;
}

static void islands_free(struct mpib_agent_islands *list)
{
	free(list->of);
	memset(list, 0, sizeof(*list));
}

static bool islands_read(struct mpib_agent_islands *list, const char *path,
			 char *why)
{
	if (words_read(path, islands_take, list, why))
		return true;
	islands_free(list);
	return false;
}

const char *mpib_agent_island_of(const struct mpib_agent_islands *list,
				 uint32_t ip)
{
	struct in6_addr addr = mpib_address_of_ip(ip);
	const struct mpib_agent_island *best = NULL;

	for (unsigned i = 0; i < list->n; i++) {
		const struct mpib_agent_island *one = &list->of[i];

		if ((!best || one->net.bits > best->net.bits) &&
		    mpib_network_has(&one->net, &addr))
			best = one;
	}
	return best ? best->name : NULL;
}

/* Parsing the agent's configuration file. */

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
	size_t field; /* where its number is kept, */
	uint64_t least; /* which is at least this, */
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
	if (!rule_parse_for(rule, l->words, (int)l->count, l->why))
		return false;
	c->rules++;
	return true;
}

/* Read sout or sup. */
static bool is_rail(const char *word, unsigned *rail)
{
	*rail = !strcmp(word, "sup") ? MPIB_RAIL_SUP : MPIB_RAIL_SOUT;
	return *rail == MPIB_RAIL_SUP || !strcmp(word, "sout");
}

static bool take_speed(struct mpib_agent_conf *c, const struct conf_line *l)
{
	unsigned rail;

	if (l->count == 2 && is_rail(l->words[0], &rail) &&
	    mpib_number(l->words[1], 1, 1000000, &c->speed[rail]))
		return true;
	return mpib_agent_bad(l->why, "speed: it takes sout or sup and Gb/s "
				      "(as speed sup 400)");
}

static bool take_limit(struct mpib_agent_conf *c, const struct conf_line *l)
{
	struct mpib_agent_limit *limit = &c->limit[c->limits];
	char **words = l->words;
	unsigned count = l->count, rail;

	if (c->limits == MPIB_AGENT_LIMITS)
		return mpib_agent_bad(
			l->why,
			"%s: there are more than %u limits (remove some)",
			l->is->word, MPIB_AGENT_LIMITS);
	*limit = (struct mpib_agent_limit){ .congested = l->is->congested,
					    .rails = 3 };
	if (count == 3 && is_rail(words[0], &rail)) {
		limit->rails = (uint8_t)(1u << rail);
		words++;
		count--;
	}
	if (count != 2 || strlen(words[0]) >= sizeof(limit->counter) ||
	    !mpib_number(words[1], 0, UINT64_MAX, &limit->per_s))
		return mpib_agent_bad(
			l->why,
			"%s: it takes a counter of mpibctl counters and a "
			"number a second (as symbol_error 10), behind sout or "
			"sup if it is for one rail",
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

static bool take_islands(struct mpib_agent_conf *c, const struct conf_line *l)
{
	char *path = c->islands_path;

	if (l->count != 1 || l->words[0][0] != '/' ||
	    strlen(l->words[0]) >= MPIB_AGENT_PATH || *path)
		return mpib_agent_bad(
			l->why,
			"islands %.48s: it takes one file, once (its path "
			"from /, of less than %u bytes)",
			l->count ? l->words[0] : "", MPIB_AGENT_PATH);
	snprintf(path, MPIB_AGENT_PATH, "%s", l->words[0]);
	return islands_read(&c->islands, path, l->why);
}

#define FIELD(name) .field = offsetof(struct mpib_agent_conf, name)

static const struct conf_word conf_words[] = {
	{ .word = "rule", .take = take_rule },
	{ .word = "speed", .take = take_speed },
	{ .word = "sick", .take = take_limit },
	{ .word = "congested", .take = take_limit, .congested = true },
	{ .word = "slow", .take = take_number, FIELD(slow), .least = 2 },
	{ .word = "hold", .take = take_number, FIELD(hold_s), .least = 1 },
	{ .word = "lead", .take = take_number, FIELD(lead_s), .least = 0 },
	{ .word = "islands", .take = take_islands },
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
	if (words_read(path, conf_take, c, why) && conf_whole(c, why))
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
	const struct rule_way way = {
		.here = mpib_agent_island_of(&c->islands, s->src_ip),
		.there = mpib_agent_island_of(&c->islands, s->dst_ip),
	};

	for (unsigned i = 0; i < c->rules; i++) {
		if (rule_fits(&c->rule[i], s, &way))
			return &c->rule[i];
	}
	return &own;
}

bool mpib_agent_conf_turn(struct mpib_agent_conf *c, uint64_t now_s)
{
	bool turned = false;

	for (unsigned i = 0; i < c->rules; i++) {
		struct mpib_agent_rule *rule = &c->rule[i];
		uint64_t lead = rule->drains ? c->lead_s : 0;
		bool idle = (rule->from && now_s + lead < rule->from) ||
			    (rule->to && now_s >= rule->to);

		turned |= idle != rule->idle;
		rule->idle = idle;
	}
	return turned;
}

void mpib_agent_conf_free(struct mpib_agent_conf *c)
{
	islands_free(&c->islands);
	memset(c, 0, sizeof(*c));
}
