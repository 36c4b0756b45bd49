/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/agent/rules.h: parse a rule that is given as words of a command
 * line. */
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

TEST(a_rule_gives_exactly_one_share)
{
	static const struct {
		const char *word, *arg;
		uint32_t share;
	} row[] = {
		{ "static", "0", 0 },
		{ "static", "1024", 1024 },
		{ "drain", "sout", 1024 },
		{ "drain", "sup", 0 },
		{ "adaptive", NULL, MPIB_HINT_OWN },
	};

	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		assert_true(parse(row[i].word, row[i].arg));
		assert_int_equal(rule.share, row[i].share);
	}
}

TEST(a_word_that_is_not_a_rule_is_refused_with_its_name)
{
	static const char *const bad[][2] = {
		{ "static", "1025" }, { "static", "-1" },    { "static", NULL },
		{ "static", "x" },    { "static", "5x" },    { "drain", "up" },
		{ "drain", NULL },    { "adaptive", "sup" }, { "steady", "1" },
	};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_false(parse(bad[i][0], bad[i][1]));
		assert_non_null(strstr(why, bad[i][0]));
	}
	assert_false(parse(NULL, NULL));
}
