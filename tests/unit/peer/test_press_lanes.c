/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an upgrade ends that waits for a peer: a lane over which nothing is open, and
 * by force any, whatever the peer does meanwhile.
 */
#include "engine/handover/handover.h"
#include "peer/handover/serialize.h"
#include "peer/internal.h"
#include "rig.h"
#include "test.h"

/* Of the real engine's lanes, and of the hand-over of the rest. */
static bool left;

bool mpib_lane_can_move(const struct mpib_lane *lane)
{
	(void)lane;
	return true;
}

bool mpib_lane_left(const struct mpib_lane *lane)
{
	(void)lane;
	return left;
}

bool mpib_peer_quiescent(const struct mpib_peer *p)
{
	return p->state == MPIB_PEER_UP && !p->resuming;
}

void mpib_serial_node(struct mpib_serial *p, struct mpib_node_id *n)
{
	(void)p;
	(void)n;
}

void mpib_serial_peers(struct mpib_broker_serialize *x)
{
	(void)x;
}

void mpib_serial_listeners(struct mpib_broker_serialize *x)
{
	(void)x;
}

void mpib_serial_conns(struct mpib_broker_serialize *x)
{
	(void)x;
}

/* Until nothing moves at that node, while the others stand still. */
static void turn_alone(struct node *n)
{
	for (unsigned still = 0; still < 3;)
		still = mpib_loop_turn(&n->loop, 0) > 0 ? 0 : still + 1;
}

/* The peer stands still when its client accepts, or when the connect comes, and
 * hears of the end of the lane only then. */
static void a_connect_begins_anew_whose_peer_accepts_as_it_goes_on(void **state)
{
	for (unsigned before = 0; before < 2; before++) {
		struct mpib_handle handle;
		struct client *a, *b;
		struct mpib_broker *at_a;
		struct rig *rig;
		uint32_t id;

		rig_setup(state);
		rig = *state;
		rig_both_connected(rig, &a, &b);
		at_a = a->node->broker;
		mpib_broker_drop(at_a, &a->client, 0);
		mpib_broker_drop(b->node->broker, &b->client, 0);
		rig_settle(rig);
		id = rig_listen(b, &handle);
		if (before) {
			rig_accept(b, id, 0);
			rig_settle(rig);
		}
		rig_call(a, 0, rig->traffic_class, &handle);
		if (before)
			turn_alone(a->node);
		else
			rig_settle(rig);
		mpib_broker_hold(at_a, true);
		turn_alone(a->node);
		mpib_broker_press(at_a);
		turn_alone(a->node);
		assert_int_equal(a->client.conn[0]->state, PEER_CONN_HELD);
		if (!before)
			rig_accept(b, id, 0);
		rig_settle(rig);
		assert_int_equal(rig_state(b, 0), MPIB_CONN_PENDING);
		mpib_broker_hold(at_a, false);
		rig_settle(rig);
		assert_int_equal(rig_state(a, 0), MPIB_CONN_READY);
		assert_int_equal(rig_state(b, 0), MPIB_CONN_READY);
		rig_teardown(state);
	}
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(
		a_connect_begins_anew_whose_peer_accepts_as_it_goes_on),
	{ 0 },
};
