/* SPDX-License-Identifier: Apache-2.0 */
/* engine/split/mode.h: which nodes are in the same island. */
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

TEST(both_ends_compute_the_same_path)
{
	static const char apart[] = "10.1.0.0/16+10.3.0.0/16,10.2.0.0/16";
	static const char nested[] = "10.0.0.0/8,10.1.2.0/24,0.0.0.0/0";
	static const struct {
		unsigned prefix;
		const char *networks, *a, *b;
		enum mpib_path path;
	} row[] = {
		{ 0, "", "10.0.0.1", "10.0.0.1", MPIB_PATH_UNKNOWN },
		{ 24, "", "10.0.0.1", "10.0.0.254", MPIB_PATH_INTRA },
		{ 24, "", "10.0.0.255", "10.0.1.0", MPIB_PATH_INTER },
		{ 9, "", "10.0.0.1", "10.127.0.1", MPIB_PATH_INTRA },
		{ 9, "", "10.0.0.1", "10.128.0.1", MPIB_PATH_INTER },
		{ 32, "", "10.0.0.1", "10.0.0.1", MPIB_PATH_INTRA },
		{ 32, "", "10.0.0.1", "10.0.0.0", MPIB_PATH_INTER },
		/* An unknown address belongs to no island. */
		{ 1, "", "0.0.0.0", "10.0.0.1", MPIB_PATH_INTER },
		{ 1, "", "0.0.0.0", "0.0.0.0", MPIB_PATH_INTER },
		{ 0, apart, "10.1.0.1", "10.3.9.9", MPIB_PATH_INTRA },
		{ 0, apart, "10.1.0.1", "10.2.0.1", MPIB_PATH_INTER },
		{ 0, apart, "10.2.0.1", "10.2.255.1", MPIB_PATH_INTRA },
		/* A node outside all networks is an island of its own. */
		{ 0, apart, "10.4.0.1", "10.4.0.2", MPIB_PATH_INTER },
		{ 0, apart, "10.4.0.1", "10.4.0.1", MPIB_PATH_INTRA },
		/* The longest matching prefix decides. */
		{ 0, nested, "10.1.2.3", "10.1.3.3", MPIB_PATH_INTER },
		{ 0, nested, "10.1.3.3", "10.200.0.1", MPIB_PATH_INTRA },
		{ 0, nested, "11.0.0.1", "192.168.0.1", MPIB_PATH_INTRA },
	};

	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		uint32_t a = inet_addr(row[i].a), b = inet_addr(row[i].b);

		assert_int_equal(parse(row[i].prefix, row[i].networks), 0);
		assert_int_equal(mpib_islands_given(&is),
				 row[i].path != MPIB_PATH_UNKNOWN);
		if (mpib_islands_path(&is, a, b) != row[i].path ||
		    mpib_islands_path(&is, b, a) != row[i].path)
			fail_msg("/%u %s: %s and %s", row[i].prefix,
				 row[i].networks, row[i].a, row[i].b);
	}
}

TEST(a_list_with_too_many_networks_is_refused)
{
	char many[(MPIB_ISLAND_NETS + 1) * 16] = "";

	for (unsigned i = 0; i < MPIB_ISLAND_NETS; i++)
		snprintf(many + strlen(many), sizeof(many) - strlen(many),
			 "%s10.%u.0.0/16", i ? "," : "", i);
	assert_int_equal(parse(0, many), 0);
	strcat(many, ",11.0.0.0/8");
	assert_int_equal(parse(0, many), -EINVAL);
	assert_in(why, "too many");
}
