/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/rails/discover.h: the filter words of NCCL_IB_HCA. */
#include "rails/discover.h"
#include "test.h"

static struct mpib_hca_filter filter;
static char why[200];

static int parse(const char *text)
{
	return mpib_hca_filter_parse(&filter, text, why, sizeof(why));
}

TEST(a_filter_allows_the_same_ports_as_in_nccl)
{
	static const struct {
		const char *text, *name;
		uint8_t port;
		bool allowed;
	} row[] = {
		{ "", "mlx5_0", 1, true },
		/* Each word is a prefix of names. */
		{ "mlx5", "mlx5_0", 1, true },
		{ "mlx5_1", "mlx5_10", 2, true },
		{ "mlx5_1", "mlx5_0", 1, false },
		{ "bnxt,mlx5_1", "mlx5_1", 1, true },
		{ "mlx5_10", "mlx5_1", 1, false },
		/* After "=" each word is a whole name. */
		{ "=mlx5_1", "mlx5_1", 1, true },
		{ "=mlx5_1", "mlx5_10", 1, false },
		{ "=mlx5", "mlx5_1", 1, false },
		{ "=mlx5_0,mlx5_1", "mlx5_1", 1, true },
		/* A word with a port selects only that port. */
		{ "mlx5_0:2", "mlx5_0", 2, true },
		{ "mlx5_0:2", "mlx5_0", 1, false },
		{ "=mlx5_0:2,mlx5_1", "mlx5_1", 7, true },
		{ "=mlx5_0:2,mlx5_1", "mlx5_0", 7, false },
		/* The suffixes of NCCL 2.30 for rail and plane are ignored. */
		{ "=mlx5_0:2:0:1,mlx5_1:1:1", "mlx5_0", 2, true },
		{ "=mlx5_0:2:0:1,mlx5_1:1:1", "mlx5_0", 1, false },
		{ "=mlx5_0:2:0:1,mlx5_1:1:1", "mlx5_1", 1, true },
		{ "=mlx5_0:2:0:1,mlx5_1:1:1", "mlx5_1", 2, false },
		{ "mlx5_0::3", "mlx5_0", 2, true },
		{ "mlx5_0:::3", "mlx5_0", 1, true },
		{ "^mlx5_0:1::3", "mlx5_0", 1, false },
		/* After "^", ports that match a word are excluded, and all
		 * others are allowed. */
		{ "^mlx5_3", "mlx5_3", 1, false },
		{ "^mlx5_3", "mlx5_2", 1, true },
		{ "^mlx5_3", "mlx5_30", 1, false },
		{ "^=mlx5_3", "mlx5_30", 1, true },
		{ "^=mlx5_3,mlx5_30:1", "mlx5_30", 1, false },
		{ "^=mlx5_3,mlx5_30:1", "mlx5_30", 2, true },
	};

	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		assert_int_equal(parse(row[i].text), 0);
		if (mpib_hca_filter_allows(&filter, row[i].name, row[i].port) !=
		    row[i].allowed)
			fail_msg("%s: %s:%u", row[i].text, row[i].name,
				 row[i].port);
	}
}
