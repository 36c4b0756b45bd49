/* SPDX-License-Identifier: Apache-2.0 */
/* The software HCA's environment variables. */
#include <errno.h>

#include "test.h"
#include "verbs/soft/wire/soft_conn.h"
#include "verbs/verbs.h"

static int open_device(void)
{
	const struct mpib_rail_spec spec = { .provider = MPIB_PROVIDER_SOFT,
					     .name = "127.21.3.1",
					     .port = 1 };
	struct ibv_context *ctx;
	int rc = mpib_verbs_soft.open(&spec, &ctx);

	if (rc == 0)
		assert_int_equal(mpib_verbs_soft.close(ctx), 0);
	return rc;
}

static int open_with(const char *name, const char *value)
{
	int rc;

	setenv(name, value, 1);
	rc = open_device();
	unsetenv(name);
	return rc;
}

TEST(the_first_port_must_be_a_decimal_number_in_range)
{
	static const char *const bad[] = { "many",   " 30000",
					   "-30000", "+30000",
					   "30000x", "0",
					   "65281",  "18446744073709581616" };

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(open_with("MPIB_SOFT_PORT_BASE", bad[i]),
				 -EINVAL);
	assert_int_equal(open_with("MPIB_SOFT_PORT_BASE", "65280"), 0);
	assert_int_equal(open_with("MPIB_SOFT_PORT_BASE", ""), 0);
}

TEST(an_unknown_engine_is_refused)
{
	assert_int_equal(open_with("MPIB_SOFT_ENGINE", "uring"), -EINVAL);
	assert_int_equal(open_with("MPIB_SOFT_ENGINE", "epoll"), 0);
	assert_int_equal(open_with("MPIB_SOFT_ENGINE", ""), 0);
}

TEST(limits_can_only_be_lowered_and_only_by_their_names)
{
	static const char *const bad[] = { "max_msg_sz",
					   "max_msg_sz=",
					   "max_msg_sz=4k",
					   "max_msg_sz=2147483648",
					   "max_mr_size=-1",
					   "max_qp=8,max_wr=9",
					   "127.21.3.1/max_qp=many" };

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(open_with("MPIB_SOFT_LIMITS", bad[i]),
				 -EINVAL);
	assert_int_equal(open_with("MPIB_SOFT_LIMITS", ""), 0);
	assert_int_equal(open_with("MPIB_SOFT_LIMITS",
				   "max_qp=8,127.21.3.1/max_msg_sz=1"),
			 0);
	/* The limit of another device is not read. */
	assert_int_equal(open_with("MPIB_SOFT_LIMITS", "127.0.0.9/max_qp=many"),
			 0);
}

/* Even if the io_uring engine was built, opening may fail because the kernel
 * has no io_uring. */
TEST(an_engine_that_was_not_built_is_refused)
{
	int rc = open_with("MPIB_SOFT_ENGINE", "io_uring");

	if (!soft_engine_uring.run)
		assert_int_equal(rc, -ENOSYS);
	else
		assert_true(rc <= 0);
}
