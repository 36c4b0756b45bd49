/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/rails/discover.h: the words of NCCL_IB_HCA. */
#include <errno.h>

#include "rails/discover.h"
#include "test.h"

static struct mpib_hca_filter filter;
static char why[200];

static bool allows(const char *text, const char *name, uint8_t port)
{
	assert_int_equal(mpib_hca_filter_parse(&filter, text, why, sizeof(why)),
			 0);
	return mpib_hca_filter_allows(&filter, name, port);
}

TEST(nothing_said_allows_all)
{
	assert_true(allows("", "mlx5_0", 1));
}

TEST(names_are_beginnings)
{
	assert_true(allows("mlx5", "mlx5_0", 1));
	assert_true(allows("mlx5_1", "mlx5_10", 2));
	assert_false(allows("mlx5_1", "mlx5_0", 1));
	assert_true(allows("bnxt,mlx5_1", "mlx5_1", 1));
	assert_false(allows("mlx5_10", "mlx5_1", 1));
}

TEST(an_equals_sign_wants_the_very_name)
{
	assert_true(allows("=mlx5_1", "mlx5_1", 1));
	assert_false(allows("=mlx5_1", "mlx5_10", 1));
	assert_false(allows("=mlx5", "mlx5_1", 1));
	assert_true(allows("=mlx5_0,mlx5_1", "mlx5_1", 1)); /* for all */
}

TEST(a_port_is_that_port_alone)
{
	assert_true(allows("mlx5_0:2", "mlx5_0", 2));
	assert_false(allows("mlx5_0:2", "mlx5_0", 1));
	assert_true(allows("=mlx5_0:2,mlx5_1", "mlx5_1", 7));
	assert_false(allows("=mlx5_0:2,mlx5_1", "mlx5_0", 7));
}

/* As NCCL 2.30 has it; what NCCL leaves out may be empty. */
TEST(numbers_of_rail_and_plane_say_nothing)
{
	assert_true(allows("=mlx5_0:2:0:1,mlx5_1:1:1", "mlx5_0", 2));
	assert_false(allows("=mlx5_0:2:0:1,mlx5_1:1:1", "mlx5_0", 1));
	assert_true(allows("=mlx5_0:2:0:1,mlx5_1:1:1", "mlx5_1", 1));
	assert_false(allows("=mlx5_0:2:0:1,mlx5_1:1:1", "mlx5_1", 2));
	assert_true(allows("mlx5_0::3", "mlx5_0", 2));
	assert_true(allows("mlx5_0:::3", "mlx5_0", 1));
	assert_false(allows("^mlx5_0:1::3", "mlx5_0", 1));
}

TEST(a_caret_takes_all_the_others)
{
	assert_false(allows("^mlx5_3", "mlx5_3", 1));
	assert_true(allows("^mlx5_3", "mlx5_2", 1));
	assert_false(allows("^mlx5_3", "mlx5_30", 1));
	assert_true(allows("^=mlx5_3", "mlx5_30", 1));
	assert_false(allows("^=mlx5_3,mlx5_30:1", "mlx5_30", 1));
	assert_true(allows("^=mlx5_3,mlx5_30:1", "mlx5_30", 2));
}

TEST(what_names_no_device_is_refused)
{
	static const char *const bad[] = {
		"^",
		"=",
		"^=",
		"mlx5_0,",
		",mlx5_0",
		"mlx5_0:",
		"mlx5_0:0",
		"mlx5_0:256",
		"mlx5_0:x",
		"mlx5_0:1x",
		":1",
		"mlx5_0:1:2:3:4",
		"mlx5_0:1:x",
		"mlx5_0:1:2:x",
		"mlx5_0:1:32768",
		":1:2",
	};
	char long_name[100], many[MPIB_HCA_FILTERS * 4 + 8] = "";

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(mpib_hca_filter_parse(&filter, bad[i], why,
						       sizeof(why)),
				 -EINVAL);
	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	assert_int_equal(
		mpib_hca_filter_parse(&filter, long_name, why, sizeof(why)),
		-EINVAL);
	for (unsigned i = 0; i <= MPIB_HCA_FILTERS; i++)
		strcat(many, i ? ",ab" : "ab");
	assert_int_equal(mpib_hca_filter_parse(&filter, many, why, sizeof(why)),
			 -EINVAL);
	assert_non_null(strstr(why, "too many"));
}
