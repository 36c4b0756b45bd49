/* SPDX-License-Identifier: Apache-2.0 */
/* The speed that a rail of the software HCA reports. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "scratch.h"
#include "test.h"
#include "verbs/soft/soft.h"
#include "verbs/verbs.h"

#define NOT_KNOWN 5000

static uint64_t speed_of(const char *ip, const char *interface_says)
{
	struct in_addr addr;
	uint64_t mbps;

	assert_int_equal(scratch_make(NULL), 0);
	scratch_write("class/net/lo/speed", interface_says);
	assert_int_equal(inet_pton(AF_INET, ip, &addr), 1);
	mbps = mpib_soft_speed_mbps(addr, scratch);
	assert_int_equal(scratch_remove(NULL), 0);
	return mbps;
}

TEST(a_rail_reports_the_speed_of_its_interface)
{
	assert_int_equal(speed_of("127.0.0.1", "25000\n"), 25000);
	assert_int_equal(speed_of("127.0.0.1", "1000\n"), 1000);
}

TEST(a_rail_without_a_known_speed_reports_the_software_speed)
{
	assert_int_equal(speed_of("127.0.0.1", "-1\n"), NOT_KNOWN);
	assert_int_equal(speed_of("127.0.0.1", "0\n"), NOT_KNOWN);
	assert_int_equal(speed_of("127.0.0.1", ""), NOT_KNOWN);
	/* No interface has this address. */
	assert_int_equal(speed_of("127.0.0.77", "25000\n"), NOT_KNOWN);
}

TEST(a_rail_on_loopback_reports_the_software_speed)
{
	struct mpib_rail_spec spec = { .provider = MPIB_PROVIDER_SOFT,
				       .name = "127.0.0.77",
				       .port = 1 };
	struct mpib_port_info info;
	struct ibv_context *ctx;

	assert_int_equal(mpib_verbs_soft.open(&spec, &ctx), 0);
	assert_int_equal(mpib_verbs_soft.query_port(ctx, 1, &info), 0);
	assert_int_equal(info.speed_mbps, NOT_KNOWN);
	assert_int_equal(mpib_verbs_soft.close(ctx), 0);
}
