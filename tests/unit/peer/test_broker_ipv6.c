/* SPDX-License-Identifier: Apache-2.0 */
/* Peer links over IPv6: brokers on ::1, each with its own port. */
#include <unistd.h>

#include "peer/internal.h"
#include "rig.h"
#include "test.h"

static bool have_ipv6(void)
{
	struct sockaddr_storage sa;
	socklen_t len = mpib_address_socket(&in6addr_loopback, 0, &sa);
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool have = fd >= 0 && bind(fd, (struct sockaddr *)&sa, len) == 0;

	if (fd >= 0)
		close(fd);
	return have;
}

static int setup(void **state)
{
	int rc = rig_setup(state);

	((struct rig *)*state)->v6 = true;
	return rc;
}

/* Start two nodes, and connect a client of each. Skip the test if the machine
 * has no ::1. */
static void both_up(struct rig *rig, struct client **a, struct client **b)
{
	if (!have_ipv6())
		skip_as("this machine has no ::1");
	rig_both_up(rig, a, b, 0);
	rig_connect(rig, *a, 1, *b, 1);
}

#define CASE(name) RIG_TEST_OF(name, setup, rig_teardown)

CASE(nodes_connect_over_ipv6_in_both_directions)
{
	struct client *a, *b;

	both_up(rig, &a, &b);
	rig_connect(rig, b, 2, a, 2);
	assert_int_equal(HASH_COUNT(rig->node[0].broker->by_key), 1);
	assert_int_equal(
		strncmp(TAILQ_FIRST(&rig->node[0].broker->peers)->label,
			"[::1]:", 6),
		0);
}

CASE(a_broken_link_over_ipv6_is_made_again)
{
	struct client *a, *b;

	both_up(rig, &a, &b);
	rig_cut(rig, 0);
	rig_pass(rig, MPIB_SEC);
	rig_assert_ready(a, b, 1);
	rig_connect(rig, b, 2, a, 2);
}
