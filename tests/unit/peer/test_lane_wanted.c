/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes that a peer opens. To open a lane, the peer needs the handle of a
 * listener. These lanes must not use the quota of the listener's user, and must
 * not stay open for ever.
 */
#include <errno.h>

#include "peer/internal.h"
#include "rig.h"
#include "test.h"

static void assert_refused(struct rig *rig, struct client *from,
			   const struct mpib_handle *handle, int error,
			   const char *why)
{
	rig_call(from, 0, 0, handle);
	rig_settle(rig);
	assert_int_equal(fake_lanes(&rig->node[1].engine), 0);
	assert_int_equal(rig_state(from, 0), MPIB_CONN_FAILED);
	assert_int_equal(rig_error(from, 0), error);
	assert_non_null(strstr(rig_why(from, 0), why));
	mpib_broker_drop(from->node->broker, &from->client, 0);
	rig_settle(rig);
}

rig_test(a_peer_needs_a_listeners_handle_to_open_a_lane)
{
	struct mpib_handle handle, wrong;
	struct client *a, *b, *other;

	rig_both_up(rig, &a, &b, 0);
	other = rig_client(rig, 0, 2000, 0);
	rig_listen(b, &handle);
	wrong = handle;
	wrong.nonce ^= 1;
	assert_refused(rig, a, &wrong, -ECONNREFUSED,
		       "no longer has this listener");
	wrong = handle;
	wrong.shard = 1;
	assert_refused(rig, a, &wrong, -EACCES,
		       "belongs to another user or shard");
	/* A broker looks for a listener by nonce and user. The user of `other`
	 * has no listener with this nonce. */
	assert_refused(rig, other, &handle, -ECONNREFUSED,
		       "no longer has this listener");
	rig_connect(rig, a, 1, b, 1);
}

/* All connects wait for the same lane, which the first connect requested. */
rig_test(a_connect_to_a_refused_listener_fails_no_other_connect)
{
	/* a valid handle, a damaged one, and one of a closed listener */
	struct mpib_handle handle[3];
	struct client *a, *b;
	uint32_t id;

	rig_both_up(rig, &a, &b, 0);
	mpib_broker_close_listen(b->node->broker, &b->client,
				 rig_listen(b, &handle[2]));
	id = rig_listen(b, &handle[0]);
	handle[1] = handle[0];
	handle[1].nonce ^= 1;
	for (uint32_t i = 1; i < 9; i++)
		rig_call(a, i, 0, &handle[i % 3]);
	rig_accept(b, id, 3);
	rig_accept(b, id, 6);
	rig_pass(rig, MPIB_SEC);
	for (uint32_t i = 1; i < 9; i++)
		assert_int_equal(rig_state(a, i),
				 i % 3 ? MPIB_CONN_FAILED : MPIB_CONN_READY);
	assert_int_equal(fake_lanes(&rig->node[1].engine), 1);
}

/* Both ends request the lane at the same time, and the lower node's request
 * wins. The lower node's connect has no listener, but the lane also serves the
 * higher node's connect, which has one. */
rig_test(a_lane_that_both_ends_open_needs_one_listener)
{
	struct mpib_handle closed, open;
	struct client *a, *b;

	rig_both_connected(rig, &a, &b);
	mpib_broker_close_listen(b->node->broker, &b->client,
				 rig_listen(b, &closed));
	rig_accept(a, rig_listen(a, &open), 2);
	rig_call(a, 1, 104, &closed);
	rig_call(b, 2, 104, &open);
	rig_settle(rig);
	assert_int_equal(rig_state(a, 1), MPIB_CONN_FAILED);
	rig_assert_ready(a, b, 2);
}

/* Open lanes with different traffic classes until a lane is refused. Return the
 * number of opened lanes. */
static unsigned lanes_from(struct rig *rig, struct client *from,
			   const struct mpib_handle *to)
{
	for (uint32_t i = 0;; i++) {
		rig_call(from, i, (int)i + 1, to);
		rig_settle(rig);
		if (rig_state(from, i) != MPIB_CONN_FAILED)
			continue;
		assert_int_equal(rig_error(from, i), -EDQUOT);
		return i;
	}
}

rig_test(lanes_opened_by_peers_do_not_use_up_the_users_quota)
{
	struct client *user, *hostile[2], *b;
	struct mpib_handle handle;

	for (unsigned n = 0; n < NODES; n++)
		rig_up(rig, n);
	mpib_broker_limit_lanes(rig->node[0].broker, 8);
	user = rig_client(rig, 0, 1000, 0);
	rig_listen(user, &handle);
	for (unsigned i = 0; i < 2; i++) {
		hostile[i] = rig_client(rig, 1 + i, 1000, 0);
		assert_int_equal(lanes_from(rig, hostile[i], &handle), 2);
	}
	assert_int_equal(mpib_broker_lanes(rig->node[0].broker, 1000), 0);
	b = rig_client(rig, 1, 1000, 0);
	rig_listen(b, &handle);
	/* The first two lanes already exist. */
	assert_int_equal(lanes_from(rig, user, &handle), 2 + 8);
	assert_int_equal(mpib_broker_lanes(rig->node[0].broker, 1000), 8);
}

/* The peer opened the lane, but does not close the idle lane. */
rig_test(a_lane_that_its_opener_does_not_use_is_closed)
{
	struct client *a, *b;

	rig_both_connected(rig, &a, &b);
	mpib_broker_drop(a->node->broker, &a->client, 0);
	mpib_broker_drop(b->node->broker, &b->client, 0);
	rig_settle(rig);
	mpib_timer_disarm(&a->node->loop, &a->node->broker->lanes->idle);
	rig_pass(rig, 110 * MPIB_SEC);
	assert_int_equal(fake_lanes(&rig->node[1].engine), 1);
	rig_pass(rig, 20 * MPIB_SEC);
	assert_int_equal(fake_lanes(&rig->node[1].engine), 0);
	rig_connect(rig, a, 1, b, 1);
}
