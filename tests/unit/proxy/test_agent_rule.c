/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/agent/rules.h: the rules and their words, and balance by samples. */
#include <stdio.h>

#include "agent/rules.h"
#include "test.h"

static struct mpib_agent_rule rule;
static char why[MPIB_AGENT_WHY];

static bool parse(const char *first, const char *second)
{
	char a[32] = "", b[32] = "", *words[2] = { a, b };
	int count = (first != NULL) + (second != NULL);

	if (first)
		strcpy(a, first);
	if (second)
		strcpy(b, second);
	return mpib_agent_rule_parse(&rule, words, count, why);
}

TEST(a_fixed_rule_is_one_share)
{
	static const struct {
		const char *word, *arg;
		uint32_t share;
	} row[] = {
		{ "static", "0", 0 },	       { "static", "1024", 1024 },
		{ "weights", "400:234", 377 }, { "weights", "1:1", 512 },
		{ "weights", "0:9", 1024 },    { "drain", "sout", 1024 },
		{ "drain", "sup", 0 },
	};

	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		assert_true(parse(row[i].word, row[i].arg));
		assert_int_equal(rule.kind, MPIB_RULE_FIXED);
		assert_int_equal(rule.share, row[i].share);
	}
	assert_true(parse("balance", NULL));
	assert_int_equal(rule.kind, MPIB_RULE_BALANCE);
	assert_int_equal(rule.share, 512);
}

TEST(what_is_no_rule_is_refused_by_name)
{
	static const char *const bad[][2] = {
		{ "static", "1025" },	{ "static", "-1" },  { "static", NULL },
		{ "static", "x" },	{ "static", "5x" },  { "weights", "1" },
		{ "weights", "0:0" },	{ "weights", "1:" }, { "balance", "1" },
		{ "weights", "1:2:3" }, { "drain", "up" },   { "drain", NULL },
	};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_false(parse(bad[i][0], bad[i][1]));
		assert_non_null(strstr(why, bad[i][0]));
	}
	assert_false(parse("steady", "1"));
	assert_non_null(strstr(why, "steady"));
	assert_false(parse(NULL, NULL));
}

/* Two rails at these bytes per ms, busy all the time. */
static uint32_t after(struct mpib_agent_slot *s, struct mpib_agent_sample *now,
		      uint64_t sout, uint64_t sup, unsigned looks)
{
	uint32_t share = 0;

	while (looks--) {
		now->acked_bytes[MPIB_RAIL_SOUT] += sout * 100;
		now->acked_bytes[MPIB_RAIL_SUP] += sup * 100;
		now->busy_ns[0] += 100000000;
		now->busy_ns[1] += 100000000;
		share = mpib_agent_balance(s, now);
	}
	return share;
}

TEST(balance_goes_to_the_ratio_of_the_rates)
{
	struct mpib_agent_slot s = { .choice.balance = 512 };
	struct mpib_agent_sample now = { 0 };

	assert_in_range(after(&s, &now, 100000, 25000, 1), 200, 210);
	assert_in_range(after(&s, &now, 23400, 40000, 10), 640, 650);
	/* None is given up: else it would never be seen to recover. */
	assert_int_equal(after(&s, &now, 1000000, 1000, 20), 32);
	assert_int_equal(after(&s, &now, 1000, 1000000, 20), 1024 - 32);
}

TEST(a_lane_may_have_moved_much_before)
{
	struct mpib_agent_slot s = { .choice.balance = 512 };
	struct mpib_agent_sample now = {
		.acked_bytes = { 40ull << 40, 10ull << 40 },
		.busy_ns = { 1000000000000, 1000000000000 }
	};

	assert_in_range(mpib_agent_balance(&s, &now), 200, 210);
}

TEST(balance_stays_without_news_of_both_rails)
{
	struct mpib_agent_slot s = { .choice.balance = 300 };
	struct mpib_agent_sample now = { .acked_bytes = { 1 << 20, 0 },
					 .busy_ns = { 1000, 0 } };

	assert_int_equal(mpib_agent_balance(&s, &now), 300);
	now.acked_bytes[MPIB_RAIL_SUP] = 100; /* too few to tell */
	now.busy_ns[MPIB_RAIL_SUP] = 100;
	assert_int_equal(mpib_agent_balance(&s, &now), 300);
}

TEST(counters_of_another_lane_are_no_rate)
{
	struct mpib_agent_slot s = { .choice.balance = 512 };
	struct mpib_agent_sample now = { 0 };
	uint32_t share = after(&s, &now, 1000, 1000, 5);

	now = (struct mpib_agent_sample){ .acked_bytes = { 5, 5 },
					  .busy_ns = { 5, 5 } };
	assert_int_equal(mpib_agent_balance(&s, &now), share);
}

static unsigned compared;

bool __real_mpib_network_has(const struct mpib_network *net,
			     const struct in6_addr *addr);
bool __wrap_mpib_network_has(const struct mpib_network *net,
			     const struct in6_addr *addr);

bool __wrap_mpib_network_has(const struct mpib_network *net,
			     const struct in6_addr *addr)
{
	compared++;
	return __real_mpib_network_has(net, addr);
}

/* A list may have thousands, and so may an agent have connections. */
TEST(rules_look_once_for_a_connections_islands)
{
	static struct mpib_agent_island island[50];
	static struct mpib_agent_conf c = { .islands.of = island,
					    .islands.n = 50,
					    .rules = 100 };
	struct mpib_agent_slot s = { .src_ip = 1, .dst_ip = 2 };

	for (unsigned i = 0; i < 50; i++)
		snprintf(island[i].name, sizeof(island[i].name), "i%u", i);
	for (unsigned i = 0; i < c.rules; i++) {
		c.rule[i] = (struct mpib_agent_rule){ .where = MPIB_WHERE_NAMED,
						      .line = i + 1 };
		snprintf(c.rule[i].island, sizeof(c.rule[i].island), "none");
	}
	/* All networks of length 0 are the same one: the first counts. */
	snprintf(c.rule[99].island, sizeof(c.rule[99].island), "i0");
	assert_int_equal(mpib_agent_conf_rule(&c, &s)->line, 100);
	assert_int_equal(compared, 2);
}
