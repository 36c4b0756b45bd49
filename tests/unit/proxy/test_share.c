/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/config/check.c: the rules for shares. */
#include "config/config.h"
#include "test.h"

static const struct mpib_share none = { 0 };
static struct mpib_share_rules rules;
static char why[512];

static int parse(const char *text)
{
	return mpib_share_parse(&rules, text, why, sizeof(why));
}

TEST(rules_name_users_clients_and_jobs)
{
	struct mpib_share p;

	assert_int_equal(parse("uid=1000:weight=20:limit=50000,"
			       "name=train*:weight=50,job=0xabc:limit=7"),
			 0);
	assert_int_equal(rules.n, 3);
	p = mpib_share_of_user(&rules, 1000, none);
	assert_int_equal(p.weight, 20);
	assert_int_equal(p.limit, 50000);
	p = mpib_share_of_client(&rules, "training", 1);
	assert_int_equal(p.weight, 50);
	assert_int_equal(p.limit, 0);
	p = mpib_share_of_client(&rules, "other", 0xabc);
	assert_int_equal(p.weight, 0);
	assert_int_equal(p.limit, 7);
}

TEST(the_first_matching_rule_counts_and_otherwise_the_default)
{
	const struct mpib_share dflt = { .limit = 9 };

	assert_int_equal(
		parse("name=a*:weight=1,name=ab:weight=2,uid=1:weight=3"), 0);
	assert_int_equal(mpib_share_of_client(&rules, "ab", 0).weight, 1);
	assert_int_equal(mpib_share_of_client(&rules, "b", 0).weight, 0);
	assert_int_equal(mpib_share_of_user(&rules, 2, dflt).limit, 9);
	/* A rule for a user replaces the whole default, even the values that
	 * the rule does not set. */
	assert_int_equal(mpib_share_of_user(&rules, 1, dflt).limit, 0);
	assert_int_equal(parse(""), 0);
	assert_int_equal(rules.n, 0);
}
