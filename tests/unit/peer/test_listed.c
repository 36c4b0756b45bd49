/* SPDX-License-Identifier: Apache-2.0 */
/* What peer/relink.c lists, of lanes that have ended, of very many, and by a peer
 * that lies; and how little a quiet link carries. */
#include <errno.h>

#include "peer/internal.h"
#include "rig.h"
#include "test.h"

static void assert_ready(const struct client *a, const struct client *b,
			 uint32_t index)
{
	assert_int_equal(rig_state(a, index), MPIB_CONN_READY);
	assert_int_equal(rig_state(b, index), MPIB_CONN_READY);
}

static struct mpib_peer *peer_of(const struct rig *rig, unsigned n)
{
	return TAILQ_FIRST(&rig->node[n].broker->peers);
}

/* Their link is broken, which node n has noticed. */
static struct mpib_peer *cut_off(struct rig *rig, unsigned n)
{
	struct mpib_peer *p = peer_of(rig, n);

	rig_cut(rig, n);
	for (unsigned i = 0; p->state == MPIB_PEER_UP; i++) {
		assert_true(i < 100);
		mpib_loop_turn(&rig->node[n].loop, 0);
	}
	return p;
}

/* Its opener, or the other end, ends the lane while there is no link; a client may
 * want another like it at once. */
static void a_lane_that_ends_without_a_link_ends_at_both_ends(void **state)
{
	for (unsigned i = 0; i < 4; i++) {
		struct client *a, *b, *at;
		struct mpib_handle handle;
		struct mpib_peer *p;
		struct rig *rig;
		uint32_t id;

		rig_setup(state);
		rig = *state;
		rig_both_connected(rig, &a, &b);
		at = i & 1 ? b : a;
		id = rig_listen(i & 1 ? a : b, &handle);
		p = cut_off(rig, i & 1);
		peer_lane_kill(TAILQ_FIRST(&p->lanes), -EIO, "a test ends it");
		for (unsigned k = 0; k < 9; k++)
			mpib_engine_dispatch(&at->node->engine);
		assert_true(TAILQ_EMPTY(&p->lanes));
		if (i & 2)
			rig_call(at, 1, 0, &handle);
		rig_pass(rig, MPIB_SEC);
		assert_int_equal(rig_state(a, 0), MPIB_CONN_FAILED);
		assert_int_equal(rig_state(b, 0), MPIB_CONN_FAILED);
		if (i & 2) {
			rig_accept(i & 1 ? a : b, id, 1);
			rig_settle(rig);
			assert_ready(a, b, 1);
		}
		rig_connect(rig, a, 2, b, 2);
		rig_teardown(state);
	}
}

static unsigned listed(const struct mpib_peer *p)
{
	const struct peer_lane *l;
	unsigned n = 0;

	TAILQ_FOREACH(l, &p->lanes, entry)
	n += l->listed;
	return n;
}

#define LANES 200

/* No turn of the loop lists all, nor does more than a little wait for a peer that
 * reads nothing. */
static void many_lanes_are_listed_bit_by_bit(void **state)
{
	struct rig *rig = *state;
	struct mpib_loop *loop;
	struct client *a, *b;
	struct mpib_peer *p;
	unsigned turns = 0;

	rig_both_up(rig, &a, &b, 0);
	for (uint32_t i = 0; i < LANES; i++) {
		rig->traffic_class = (int)i + 1;
		rig_connect(rig, a, i, b, i);
	}
	p = cut_off(rig, 0);
	loop = &rig->node[0].loop;
	while (p->state != MPIB_PEER_UP)
		rig_step(rig);
	assert_in_range(listed(p), 1, LANES - 1);
	for (; listed(p) < LANES; turns++) {
		assert_true(turns < 1000);
		mpib_loop_turn(loop, 0);
	}
	for (uint32_t i = 0; i < LANES; i++)
		mpib_broker_drop(a->node->broker, &a->client, i);
	p = cut_off(rig, 0);
	rig_pass(rig, MPIB_SEC);
	assert_int_equal(fake_conns(&rig->node[0].engine), 0);
	assert_int_equal(fake_conns(&rig->node[1].engine), 0);
}

/* A peer names what is between this node and another. */
static void a_peer_lists_nothing_but_its_own(void **state)
{
	static const enum mpib_peer_type types[] = {
		MPIB_PEER_LANE_KEPT,   MPIB_PEER_LANE_ACCEPT,
		MPIB_PEER_LANE_CLOSE,  MPIB_PEER_LANE_RAIL,
		MPIB_PEER_CONN_CANCEL, MPIB_PEER_CONN_CLOSE,
		MPIB_PEER_CONN_CLOSED, MPIB_PEER_CONN_ACCEPT,
	};
	struct rig *rig = *state;
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
	assert_ready(a, b, 0);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_READY);
}

/* What no peer can read is not sent again and again. */
static void a_message_that_is_none_ends_the_lanes(void **state)
{
	struct mpib_peer_msg m = { .type = MPIB_PEER_CONN_CLOSE,
				   .to = 0x7fffffff };
	struct rig *rig = *state;
	struct client *a, *b;

	rig_both_connected(rig, &a, &b);
	mpib_peer_tell(peer_of(rig, 0), &m); /* without an error */
	rig_pass(rig, MPIB_SEC);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_FAILED);
	assert_int_equal(rig_state(b, 0), MPIB_CONN_FAILED);
	rig_connect(rig, a, 1, b, 1);
}

/* Less than a message a second, for there may be a thousand such links. */
static void quiet_peers_say_little(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;
	struct mpib_link *link;
	uint64_t said;

	rig_both_connected(rig, &a, &b);
	link = peer_of(rig, 0)->link;
	rig_pass(rig, 2 * MPIB_SEC);
	said = link->tx_bytes + link->rx_bytes;
	rig_pass(rig, 600 * MPIB_SEC);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_READY);
	said = link->tx_bytes + link->rx_bytes - said;
	assert_true(said > 0);
	/* A PING of either end and its PONG, 5 bytes each, for an eighth of a
	 * minute. */
	assert_true(said <= 600 / 7 * 4 * 5);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(a_lane_that_ends_without_a_link_ends_at_both_ends),
	rig_test(many_lanes_are_listed_bit_by_bit),
	rig_test(a_peer_lists_nothing_but_its_own),
	rig_test(a_message_that_is_none_ends_the_lanes),
	rig_test(quiet_peers_say_little),
	{ 0 },
};
