/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an upgrade ends that waits for a peer: a lane over which nothing is open, and
 * by force any, whatever the peer does meanwhile.
 */
#include <errno.h>

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
	return p->state == MPIB_PEER_UP;
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

static struct mpib_broker *forced(struct rig *rig, struct client **a,
				  struct client **b)
{
	rig_both_connected(rig, a, b);
	mpib_broker_hold((*a)->node->broker, true);
	mpib_broker_force((*a)->node->broker);
	left = true;
	return (*a)->node->broker;
}

static void assert_ended(struct rig *rig, const struct client *a)
{
	char why[200];

	rig_settle(rig);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_FAILED);
	assert_int_equal(
		mpib_broker_quiescent(a->node->broker, why, sizeof(why)), 0);
}

/* It stopped its rails, so that nothing else is waited for, and hangs up. */
static void a_link_made_again_stops_no_forced_one(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;
	struct mpib_broker *at_a = forced(rig, &a, &b);
	char why[200];

	mpib_peer_cut(TAILQ_FIRST(&at_a->peers), "it hangs up");
	assert_int_equal(mpib_broker_quiescent(at_a, why, sizeof(why)),
			 -EAGAIN);
	mpib_broker_press_fences(at_a, false);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_READY);
	mpib_broker_press_fences(at_a, true);
	turn_alone(a->node);
	assert_ended(rig, a);
}

/* Its client leaves when all had settled, and the peer does not answer that. */
static void a_close_unanswered_stops_no_forced_one(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;
	struct mpib_broker *at_a = forced(rig, &a, &b);
	char why[200];

	mpib_broker_drop(at_a, &a->client, 0);
	turn_alone(a->node);
	mpib_broker_press_fences(at_a, true);
	turn_alone(a->node);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_FREE);
	assert_int_equal(mpib_broker_quiescent(at_a, why, sizeof(why)), 0);
}

/* The next connect of another user's, over a lane that is not there yet. */
static void call_back(struct rig *rig, unsigned from, uint32_t index)
{
	struct client *of = rig_client(rig, from, 1001, 0);
	struct client *to = rig_client(rig, 0, 1001, 0);
	struct mpib_handle handle;
	uint32_t id = rig_listen(to, &handle);

	rig_accept(to, id, index);
	rig_call(of, index, 0, &handle);
	rig_settle(rig);
}

/* A peer opens no lane anew where one was ended, until the upgrade is over; who was
 * not in its way does. */
static void a_peer_opens_nothing_anew_over_a_forced_one(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;
	struct mpib_broker *at_a = forced(rig, &a, &b);

	rig_up(rig, 2);
	left = false;
	mpib_broker_press_fences(at_a, true);
	rig_settle(rig);
	assert_ended(rig, a);
	call_back(rig, 1, 1);
	assert_int_equal(rig_state(&rig->node[1].client[1], 1),
			 MPIB_CONN_FAILED);
	call_back(rig, 2, 2);
	assert_int_equal(rig_state(&rig->node[2].client[0], 2),
			 MPIB_CONN_READY);
	mpib_broker_hold(at_a, false);
	rig_settle(rig);
	call_back(rig, 1, 4);
	assert_int_equal(rig_state(&rig->node[1].client[2], 4),
			 MPIB_CONN_READY);
}

/* Who calls at last waits at the door. */
static void a_peer_that_calls_at_last_is_let_in_afterwards(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;
	struct mpib_broker *at_a = forced(rig, &a, &b);

	rig_up(rig, 2);
	mpib_broker_shut(at_a, true);
	call_back(rig, 2, 2);
	assert_int_equal(rig_state(&rig->node[2].client[0], 2),
			 MPIB_CONN_PENDING);
	mpib_broker_hold(at_a, false);
	rig_settle(rig);
	assert_int_equal(rig_state(&rig->node[2].client[0], 2),
			 MPIB_CONN_READY);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(
		a_connect_begins_anew_whose_peer_accepts_as_it_goes_on),
	rig_test(a_link_made_again_stops_no_forced_one),
	rig_test(a_close_unanswered_stops_no_forced_one),
	rig_test(a_peer_opens_nothing_anew_over_a_forced_one),
	rig_test(a_peer_that_calls_at_last_is_let_in_afterwards),
	{ 0 },
};
