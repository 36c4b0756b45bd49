/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of peer/broker.h with nodes that follow the protocol: silent peers, and
 * separate lanes. The simulator covers connects and closes in random order.
 */
#include "rig.h"

#include <stdio.h>

#include "peer/internal.h"
#include "test.h"

/* Let time pass while node 1 is stopped and node 0 runs. */
static void pass_alone(struct rig *rig, unsigned seconds)
{
	struct mpib_loop *loop = &rig->node[0].loop;

	while (seconds-- > 0) {
		mpib_loop_advance(loop, MPIB_SEC);
		while (mpib_loop_turn(loop, 0) > 0)
			;
	}
}

rig_test(a_silent_peer_is_dropped_after_the_timeout)
{
	static const unsigned silence[] = { 0, 30 };
	struct client *a, *b;
	char text[64];

	rig_up(rig, 1);
	b = rig_client(rig, 1, 1000, 0);
	for (unsigned i = 0; i < 2; i++) {
		unsigned limit = silence[i] ? silence[i] : 60;

		rig->silence_s = silence[i];
		rig_up(rig, 0);
		a = rig_client(rig, 0, 1000, 0);
		rig_connect(rig, a, 0, b, i);
		pass_alone(rig, limit - 1);
		assert_int_equal(rig_state(a, 0), MPIB_CONN_READY);
		pass_alone(rig, 2);
		assert_int_equal(rig_state(a, 0), MPIB_CONN_FAILED);
		snprintf(text, sizeof(text), "no sign of life for %u s", limit);
		assert_non_null(strstr(rig_why(a, 0), text));
		rig_kill(rig, 0);
		rig_settle(rig);
	}
}

/* A close alone must not end the peer link, because the stopped peer may
 * continue. */
rig_test(a_close_waits_for_a_stopped_peer)
{
	struct client *a, *b;

	rig_both_connected(rig, &a, &b);
	rig_connect(rig, a, 1, b, 1);
	mpib_broker_drop(a->node->broker, &a->client, 0);
	pass_alone(rig, 50);
	rig_settle(rig);
	rig_assert_ready(a, b, 1);
}

rig_test(each_user_and_shard_has_its_own_lane)
{
	struct client *a, *b, *c, *d;

	rig_both_up(rig, &a, &b, 1);
	c = rig_client(rig, 0, 1001, 0);
	d = rig_client(rig, 1, 1001, 1);
	rig_connect(rig, a, 0, b, 0);
	rig_connect(rig, c, 0, d, 0);
	assert_int_equal(fake_lanes(&rig->node[0].engine), 2);
	b = rig_client(rig, 1, 1000, 0);
	rig_connect(rig, a, 1, b, 0);
	assert_int_equal(fake_lanes(&rig->node[1].engine), 3);
}

rig_test(each_traffic_class_has_its_own_lane)
{
	struct client *a, *b;

	rig_both_up(rig, &a, &b, 1);
	rig_connect(rig, a, 0, b, 0);
	rig->traffic_class = 104;
	rig_connect(rig, a, 1, b, 1);
	rig_connect(rig, a, 2, b, 2);
	/* The traffic class selects the lane, no matter which end requests
	 * it. */
	rig_connect(rig, b, 3, a, 3);
	/* invalid, so the configured class is used */
	rig->traffic_class = 256;
	rig_connect(rig, b, 4, a, 4);
	for (unsigned n = 0; n < 2; n++) {
		assert_int_equal(fake_lanes(&rig->node[n].engine), 2);
		assert_int_equal(
			fake_lane(&rig->node[n].engine, 0)->traffic_class, 0);
		assert_int_equal(
			fake_lane(&rig->node[n].engine, 1)->traffic_class, 104);
	}
}
