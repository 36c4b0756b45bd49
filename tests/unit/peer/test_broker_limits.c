/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer/broker.h when a resource is missing or a message is late: for example, a
 * peer that cannot be accepted, or ids of an earlier run.
 */
#include <errno.h>
#include <sys/socket.h>

#include "peer/internal.h"
#include "rig.h"
#include "test.h"

static int accept_error;
static unsigned accepts;

WRAPS(int, accept4, int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	accepts++;
	errno = accept_error;
	return accept_error ? -1 : __real_accept4(fd, addr, len, flags);
}

TEST(a_caller_that_cannot_be_accepted_causes_no_busy_loop)
{
	static const int error[] = { EMFILE, ENFILE, ENOMEM, ENOBUFS, EPERM };

	for (unsigned i = 0; i < sizeof(error) / sizeof(error[0]); i++) {
		struct mpib_handle handle;
		struct client *a, *b;
		struct rig *rig;
		uint32_t id;

		rig_setup(state);
		rig = *state;
		rig_both_up(rig, &a, &b, 0);
		id = rig_listen(b, &handle);
		mpib_broker_accept(b->node->broker, &b->client, id, 0);
		accept_error = error[i];
		accepts = 0;
		rig_try_call(a, 0, 0, &handle);
		for (unsigned k = 0; k < 200; k++) {
			mpib_loop_turn(&rig->node[0].loop, 0);
			mpib_loop_turn(&rig->node[1].loop, 0);
		}
		assert_int_equal(accepts, 1);
		accept_error = 0;
		rig_pass(rig, MPIB_SEC);
		assert_int_equal(rig_state(a, 0), MPIB_CONN_READY);
		rig_teardown(state);
	}
}

/* At node 1, open a lane for a connect, and cancel the connect immediately. */
static void open_and_give_up(struct rig *rig, const struct mpib_handle *handle)
{
	struct client *b = rig_client(rig, 1, 1000, 0);

	rig_call(b, 0, 0, handle);
	for (unsigned i = 0; fake_lanes(&rig->node[1].engine) == 0; i++) {
		assert_true(i < 1000);
		rig_step(rig);
	}
	mpib_broker_drop(b->node->broker, &b->client, 0);
}

/* A restarted proxy counts its ids from the start again. Here a new lane has
 * the same id as a lane of the earlier run, and the old lane is still being
 * closed. */
rig_test(an_abandoned_lane_is_closed_even_if_its_id_was_used_before)
{
	struct mpib_handle handle;
	struct client *a;

	rig->private_lanes = true;
	rig_up(rig, 0);
	rig_up(rig, 1);
	a = rig_client(rig, 0, 1000, 0);
	rig_listen(a, &handle);
	rig_connect(rig, rig_client(rig, 1, 1000, 0), 0, a, 0);
	fake_engine_hold(&rig->node[0].engine, true);
	rig->port[1] = mpib_broker_port(rig->node[1].broker);
	rig_kill(rig, 1);
	rig_settle(rig);
	assert_int_equal(fake_lanes(&rig->node[0].engine), 1);
	rig_up(rig, 1);
	open_and_give_up(rig, &handle);
	rig_settle(rig);
	fake_engine_hold(&rig->node[0].engine, false);
	rig_settle(rig);
	assert_int_equal(fake_lanes(&rig->node[0].engine), 0);
}

/* Make a client on each node, and let *b listen. Return the listener's id. */
static uint32_t listen_to(struct rig *rig, struct client **a, struct client **b,
			  struct mpib_handle *handle)
{
	rig_both_up(rig, a, b, 0);
	return rig_listen(*b, handle);
}

/* Peers may connect before this client accepts, because they may learn its
 * address before it learns their addresses. */
rig_test(a_listener_has_room_for_all_connections_of_its_client)
{
	struct mpib_handle handle;
	struct client *a, *b;
	uint32_t id;

	id = listen_to(rig, &a, &b, &handle);
	for (uint32_t i = 0; i < MPIB_CONNS_MAX; i++)
		rig_call(a, i, 0, &handle);
	rig_pass(rig, MPIB_SEC);
	for (uint32_t i = 0; i < MPIB_CONNS_MAX; i++)
		rig_accept(b, id, i);
	rig_pass(rig, MPIB_SEC);
	for (uint32_t i = 0; i < MPIB_CONNS_MAX; i++) {
		rig_assert_ready(a, b, i);
	}
}

/* The lane closes at both ends a minute after its last connection. */
rig_test(an_unused_lane_is_closed_after_a_minute)
{
	struct client *a, *b;

	rig_both_up(rig, &a, &b, 0);
	rig_connect(rig, a, 0, b, 0);
	rig_pass(rig, 100 * MPIB_SEC);
	assert_int_equal(fake_lanes(&rig->node[0].engine), 1);
	mpib_broker_drop(a->node->broker, &a->client, 0);
	rig_pass(rig, 50 * MPIB_SEC);
	mpib_broker_drop(b->node->broker, &b->client, 0);
	/* uses the lane before the minute is over */
	rig_connect(rig, b, 1, a, 1);
	rig_pass(rig, 50 * MPIB_SEC);
	assert_int_equal(fake_lanes(&rig->node[0].engine), 1);
	mpib_broker_drop(a->node->broker, &a->client, 1);
	mpib_broker_drop(b->node->broker, &b->client, 1);
	rig_pass(rig, 61 * MPIB_SEC);
	assert_int_equal(fake_lanes(&rig->node[0].engine), 0);
	assert_int_equal(fake_lanes(&rig->node[1].engine), 0);
	rig_connect(rig, a, 2, b, 2);
}

/* The connect is cancelled before its lane is up. */
rig_test(a_lane_whose_connect_was_cancelled_is_closed)
{
	struct mpib_handle handle;
	struct client *a, *b;

	rig_both_up(rig, &a, &b, 0);
	rig_listen(a, &handle);
	open_and_give_up(rig, &handle);
	rig_settle(rig);
	assert_int_equal(fake_lanes(&rig->node[0].engine), 1);
	rig_pass(rig, 61 * MPIB_SEC);
	assert_int_equal(fake_lanes(&rig->node[0].engine), 0);
	assert_int_equal(fake_lanes(&rig->node[1].engine), 0);
}

/* One end closes the idle lane while the other end begins to use it. The
 * connect must continue over a new lane. */
rig_test(a_connect_succeeds_while_its_idle_lane_is_being_closed)
{
	struct mpib_handle handle;
	struct client *a, *b;
	uint32_t id;

	rig_both_up(rig, &a, &b, 0);
	id = rig_listen(a, &handle);
	rig_connect(rig, a, 0, b, 0); /* node 0 opens the lane */
	rig->traffic_class = 5;
	/* this connection has another lane, which stays open */
	rig_connect(rig, a, 2, b, 2);
	rig->traffic_class = 0;
	mpib_broker_drop(a->node->broker, &a->client, 0);
	mpib_broker_drop(b->node->broker, &b->client, 0);
	rig_pass(rig, 59 * MPIB_SEC);
	mpib_broker_accept(a->node->broker, &a->client, id, 1);
	assert_int_equal(fake_lanes(&rig->node[0].engine), 2);
	rig_advance(rig, 2 * MPIB_SEC);
	rig_call(b, 1, 0, &handle);
	rig_pass(rig, 2 * MPIB_SEC);
	for (unsigned i = 1; i <= 2; i++) {
		rig_assert_ready(b, a, i);
	}
}

rig_test(a_users_lanes_are_limited_and_others_keep_theirs)
{
	struct mpib_handle handle;
	struct client *a, *b, *c, *d;

	rig_up(rig, 0);
	rig_up(rig, 1);
	mpib_broker_limit_lanes(rig->node[0].broker, 3);
	a = rig_client(rig, 0, 1000, 0);
	b = rig_client(rig, 1, 1000, 0);
	c = rig_client(rig, 0, 2000, 0);
	d = rig_client(rig, 1, 2000, 0);
	for (int i = 1; i <= 3; i++) {
		rig->traffic_class = i;
		rig_connect(rig, a, (uint32_t)i, b, (uint32_t)i);
	}
	rig_listen(b, &handle);
	rig_call(a, 9, 9, &handle);
	rig_settle(rig);
	assert_int_equal(rig_state(a, 9), MPIB_CONN_FAILED);
	assert_int_equal(rig_error(a, 9), -EDQUOT);
	assert_non_null(strstr(rig_why(a, 9), "quota.lanes = 3"));
	rig_connect(rig, c, 1, d, 1);
}

/* The networks of node 0 contain only node 0, and those of node 1 contain all
 * nodes. */
rig_test(nodes_outside_the_configured_networks_are_not_peers)
{
	struct mpib_networks own, all;
	struct mpib_handle handle;
	struct client *a, *b, *self;
	char why[200];

	mpib_networks_parse(&own, "127.23.0.1/32", why, sizeof(why));
	mpib_networks_parse(&all, "10.0.0.0/8,127.23.0.0/24", why, sizeof(why));
	rig->networks[0] = &own;
	rig->networks[1] = &all;
	rig_up(rig, 0);
	rig_up(rig, 1);
	a = rig_client(rig, 0, 1000, 0);
	self = rig_client(rig, 0, 1000, 0);
	b = rig_client(rig, 1, 1000, 0);
	/* Node 0 must not dial other nodes. */
	rig_listen(b, &handle);
	assert_int_equal(rig_try_call(a, 0, 0, &handle), -EACCES);
	assert_int_equal(HASH_COUNT(a->node->broker->by_key), 0);
	/* Node 0 must not accept other nodes. The refused node learns the
	 * reason. */
	rig_listen(a, &handle);
	rig_call(b, 0, 0, &handle);
	rig_pass(rig, 3 * MPIB_SEC);
	assert_int_equal(HASH_COUNT(a->node->broker->by_key), 0);
	assert_true(a->node->broker->refused_count > 0);
	assert_non_null(strstr(TAILQ_FIRST(&b->node->broker->peers)->last_error,
			       "peer.networks"));
	/* A node is always a peer of itself. */
	rig_connect(rig, a, 1, self, 1);
}
