/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lists of lanes and connections that both ends exchange after a peer link
 * broke, wrong lists, and a message that no peer can decode.
 */
#include <errno.h>

#include "peer/internal.h"
#include "rig.h"
#include "test.h"

static struct mpib_peer *peer_of(const struct rig *rig, unsigned n)
{
	return TAILQ_FIRST(&rig->node[n].broker->peers);
}

/* A peer lists connections that exist between this node and a third node. */
rig_test(a_peer_can_list_only_its_own_connections)
{
	static const enum mpib_peer_type types[] = {
		MPIB_PEER_LANE_KEPT,   MPIB_PEER_LANE_ACCEPT,
		MPIB_PEER_LANE_CLOSE,  MPIB_PEER_LANE_RAIL,
		MPIB_PEER_CONN_CANCEL, MPIB_PEER_CONN_CLOSE,
		MPIB_PEER_CONN_CLOSED, MPIB_PEER_CONN_ACCEPT,
	};
	struct client *a, *b, *c;
	struct mpib_peer *p;
	uint64_t key[2];

	rig_both_connected(rig, &a, &b);
	rig_up(rig, 2);
	c = rig_client(rig, 2, 1000, 0);
	rig_connect(rig, c, 0, a, 1);
	p = peer_of(rig, 2);
	key[0] = a->client.conn[0]->name.key;
	key[1] = a->client.conn[1]->name.key;
	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		for (uint32_t id = 1; id < 30; id++) {
			struct mpib_peer_msg m = {
				.type = types[i],
				.to = id,
				.name = { key[id % 2], 1000, id / 2 % 2 },
				.from = id + 100,
				.lane = id,
				.error = -EIO,
				.rail.type = MPIB_RAIL_UP,
				.lane_info = { .imm_version = 2, .rails = 1 },
			};

			m.lane_info.rail[0].qps = m.lane_info.rail[0].mtu = 1;
			mpib_peer_tell(p, &m);
		}
		rig_settle(rig);
	}
	rig_assert_ready(a, b, 0);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_READY);
}

/* The message must not be sent again after each reconnect. */
rig_test(a_message_that_no_peer_can_decode_ends_the_lanes)
{
	struct mpib_peer_msg m = { .type = MPIB_PEER_CONN_CLOSE,
				   .to = 0x7fffffff };
	struct client *a, *b;

	rig_both_connected(rig, &a, &b);
	/* invalid, since it has no error */
	mpib_peer_tell(peer_of(rig, 0), &m);
	rig_pass(rig, MPIB_SEC);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_FAILED);
	assert_int_equal(rig_state(b, 0), MPIB_CONN_FAILED);
	rig_connect(rig, a, 1, b, 1);
}

/* Let node 1 accept a lane of node 0, then break the link so that the answer is
 * lost. */
static void lose_accept(struct rig *rig)
{
	while (fake_lanes(&rig->node[1].engine) == 0) {
		mpib_loop_turn(&rig->node[0].loop, 0);
		mpib_loop_turn(&rig->node[1].loop, 0);
	}
	rig_cut(rig, 1);
	rig_cut(rig, 0);
}

/* A private lane is identified only by the number that its opener gave it. */
rig_test(a_lane_that_is_requested_again_is_the_same_lane)
{
	struct mpib_handle handle;
	struct client *a, *b;

	rig->private_lanes = true;
	rig_both_up(rig, &a, &b, 0);
	rig_accept(b, rig_listen(b, &handle), 0);
	rig_call(a, 0, 0, &handle);
	lose_accept(rig);
	rig_pass(rig, MPIB_SEC);
	rig_assert_ready(a, b, 0);
	assert_int_equal(fake_lanes(&rig->node[1].engine), 1);
}

/* Node 0 has lost the lane's accept and requests the lane again. Before node 1
 * learns this, it lists a connect on the lane, which it still has. */
rig_test(a_connect_on_a_lane_whose_accept_was_lost_is_not_refused)
{
	struct mpib_handle to[2];
	struct client *a, *b;

	rig_both_up(rig, &a, &b, 0);
	rig_accept(a, rig_listen(a, &to[0]), 1);
	rig_accept(b, rig_listen(b, &to[1]), 0);
	rig_call(a, 0, 0, &to[1]);
	lose_accept(rig);
	rig_call(b, 1, 0, &to[0]);
	rig_pass(rig, MPIB_SEC);
	rig_assert_ready(a, b, 0);
	rig_assert_ready(a, b, 1);
}

/* The opener closes an idle lane, but the message is lost. */
rig_test(a_lane_closed_at_one_end_is_closed_at_the_other)
{
	struct client *a, *b;
	struct peer_lane *lane;

	rig_both_connected(rig, &a, &b);
	mpib_broker_drop(a->node->broker, &a->client, 0);
	mpib_broker_drop(b->node->broker, &b->client, 0);
	rig_settle(rig);
	lane = a->node->broker->lanes;
	while (lane->state == PEER_LANE_UP) {
		rig_advance(rig, MPIB_SEC);
		mpib_loop_turn(&a->node->loop, 0);
	}
	rig_cut(rig, 0);
	rig_cut(rig, 1);
	rig_pass(rig, MPIB_SEC);
	assert_int_equal(fake_lanes(&rig->node[1].engine), 0);
	rig_connect(rig, a, 1, b, 1);
}

#define LANES 140 /* more lanes than a broker lists in two turns */

/* The peer does not know the state of the rail yet, so it would refuse such a
 * message. */
rig_test(no_message_about_rails_is_sent_before_the_lane_is_listed)
{
	const struct mpib_rail_msg m = { .type = MPIB_RAIL_FENCE };
	unsigned before[LANES], unlisted = 0;
	struct mpib_lane *lane[2][LANES];
	struct node *node = rig->node;
	struct client *a, *b;

	rig_both_up(rig, &a, &b, 0);
	for (uint32_t i = 0; i < LANES; i++) {
		rig->traffic_class = (int)i + 1;
		rig_connect(rig, a, i, b, i);
		lane[0][i] = fake_lane(&node[0].engine, i);
		lane[1][i] = fake_lane(&node[1].engine, i);
		assert_int_equal(lane[0][i]->traffic_class,
				 lane[1][i]->traffic_class);
	}
	rig_cut(rig, 0);
	while (lane[0][0]->retold == 0)
		rig_step(rig);
	for (unsigned i = 0; i < LANES; i++) {
		unlisted += lane[0][i]->retold == 0;
		mpib_broker_events.lane_send(&node[0].broker, lane[0][i], &m);
		before[i] = lane[0][i]->retold;
	}
	assert_in_range(unlisted, 1, LANES - 1);
	rig_settle(rig);
	for (unsigned i = 0; i < LANES; i++) {
		assert_int_equal(lane[1][i]->received, before[i]);
		assert_int_equal(lane[0][i]->retold, 1);
	}
}
