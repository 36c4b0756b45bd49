/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer lists that lies, and a message that none can read. */
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

const struct CMUnitTest test_list[] = {
	rig_test(a_peer_lists_nothing_but_its_own),
	rig_test(a_message_that_is_none_ends_the_lanes),
	{ 0 },
};
