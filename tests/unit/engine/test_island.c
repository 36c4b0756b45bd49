/* SPDX-License-Identifier: Apache-2.0 */
/* engine/split/mode.h: who shares an island with whom, and what is refused. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

#include "engine/split/mode.h"
#include "test.h"

static struct mpib_islands is;
static char why[200];

static int parse(unsigned prefix, const char *text)
{
	return mpib_islands_parse(&is, prefix, text, why, sizeof(why));
}

static enum mpib_path path(const char *a, const char *b)
{
	enum mpib_path there =
		mpib_islands_path(&is, inet_addr(a), inet_addr(b));

	/* Both ends find the same. */
	assert_int_equal(there,
			 mpib_islands_path(&is, inet_addr(b), inet_addr(a)));
	return there;
}

TEST(without_islands_nobody_knows)
{
	assert_int_equal(parse(0, ""), 0);
	assert_false(mpib_islands_given(&is));
	assert_int_equal(path("10.0.0.1", "10.0.0.1"), MPIB_PATH_UNKNOWN);
}

TEST(a_prefix_makes_islands_of_its_length)
{
	assert_int_equal(parse(24, ""), 0);
	assert_true(mpib_islands_given(&is));
	assert_int_equal(path("10.0.0.1", "10.0.0.254"), MPIB_PATH_INTRA);
	assert_int_equal(path("10.0.0.255", "10.0.1.0"), MPIB_PATH_INTER);
	assert_int_equal(parse(9, ""), 0);
	assert_int_equal(path("10.0.0.1", "10.127.0.1"), MPIB_PATH_INTRA);
	assert_int_equal(path("10.0.0.1", "10.128.0.1"), MPIB_PATH_INTER);
	assert_int_equal(parse(32, ""), 0);
	assert_int_equal(path("10.0.0.1", "10.0.0.1"), MPIB_PATH_INTRA);
	assert_int_equal(path("10.0.0.1", "10.0.0.0"), MPIB_PATH_INTER);
}

TEST(an_unknown_address_is_in_no_island)
{
	assert_int_equal(parse(1, ""), 0);
	assert_int_equal(path("0.0.0.0", "10.0.0.1"), MPIB_PATH_INTER);
	assert_int_equal(path("0.0.0.0", "0.0.0.0"), MPIB_PATH_INTER);
}

TEST(networks_of_an_island_need_not_be_neighbours)
{
	assert_int_equal(parse(0, "10.1.0.0/16+10.3.0.0/16,10.2.0.0/16"), 0);
	assert_int_equal(path("10.1.0.1", "10.3.9.9"), MPIB_PATH_INTRA);
	assert_int_equal(path("10.1.0.1", "10.2.0.1"), MPIB_PATH_INTER);
	assert_int_equal(path("10.2.0.1", "10.2.255.1"), MPIB_PATH_INTRA);
	/* Of no list: alone, but for itself. */
	assert_int_equal(path("10.4.0.1", "10.4.0.2"), MPIB_PATH_INTER);
	assert_int_equal(path("10.4.0.1", "10.4.0.1"), MPIB_PATH_INTRA);
}

TEST(the_longest_network_counts)
{
	assert_int_equal(parse(0, "10.0.0.0/8,10.1.2.0/24,0.0.0.0/0"), 0);
	assert_int_equal(path("10.1.2.3", "10.1.3.3"), MPIB_PATH_INTER);
	assert_int_equal(path("10.1.3.3", "10.200.0.1"), MPIB_PATH_INTRA);
	assert_int_equal(path("11.0.0.1", "192.168.0.1"), MPIB_PATH_INTRA);
}

TEST(what_is_no_list_of_networks_is_refused_by_name)
{
	static const char *const bad[] = {
		"10.0.0.0",
		"10.0.0.0/33",
		"10.0.0.1/24",
		"/8",
		"10.0.0.0/8,",
		",10.0.0.0/8",
		"10.0.0.0/",
		"x/8",
		"10.0.0.0/8+",
		"10.0.0.0/8 ",
		"10.0.0/8",
		"10.0.0.0/ 8",
		"10.0.0.0/-1",
		"10.0.0.0/8,10.0.0.0/8",
		"10.0.0.0/8+11.0.0.0/8+10.0.0.0/8",
	};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		why[0] = '\0';
		assert_int_equal(parse(0, bad[i]), -EINVAL);
		assert_non_null(strchr(why, '"'));
	}
	assert_int_equal(parse(24, "10.0.0.0/8"), -EINVAL);
	assert_non_null(strstr(why, "exclude"));
}

TEST(one_network_too_many_is_refused)
{
	char text[(MPIB_ISLAND_NETS + 1) * 16] = "";

	for (unsigned i = 0; i < MPIB_ISLAND_NETS; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text),
			 "%s10.%u.0.0/16", i ? "," : "", i);
	assert_int_equal(parse(0, text), 0);
	strcat(text, ",11.0.0.0/8");
	assert_int_equal(parse(0, text), -EINVAL);
	assert_non_null(strstr(why, "too many"));
}
