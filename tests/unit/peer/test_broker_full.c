/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A broker's full tables of listeners, peers and lanes. One more entry is
 * refused with a reason, existing entries keep working, and a released entry
 * can be used again.
 */
#include <arpa/inet.h>
#include <errno.h>

#include "peer/internal.h"
#include "rig.h"
#include "test.h"

#define USERS 4
#define PEERS 8192u
#define PEERS_OF_ONE (PEERS / USERS)
#define OF_ROOT(places) ((places) / 32)

static int listen_again(struct client *c, uint32_t *id)
{
	struct mpib_handle handle;

	return mpib_broker_listen(c->node->broker, &c->client, 0, id, &handle);
}

rig_test(the_number_of_listeners_is_limited)
{
	uint32_t *id = calloc(MPIB_LISTENERS_MAX, sizeof(*id)), more;
	struct client *a, *b, *root;

	rig_both_up(rig, &a, &b, 0);
	root = rig_client(rig, 0, 0, 0);
	for (uint32_t i = 0;
	     i < MPIB_LISTENERS_MAX - OF_ROOT(MPIB_LISTENERS_MAX); i++)
		assert_int_equal(listen_again(a, &id[i]), 0);
	assert_int_equal(listen_again(a, &more), -ENOSPC);
	for (uint32_t i = 0; i < OF_ROOT(MPIB_LISTENERS_MAX); i++)
		assert_int_equal(listen_again(root, &more), 0);
	assert_int_equal(listen_again(root, &more), -ENOSPC);
	/* A user that only connects needs no listener, and each node has its
	 * own table. */
	rig_connect(rig, rig_client(rig, 0, 1000, 0), 0, b, 0);
	assert_int_equal(
		mpib_broker_close_listen(a->node->broker, &a->client, id[77]),
		0);
	/* the free entry is now one of those reserved for root */
	assert_int_equal(listen_again(a, &more), -ENOSPC);
	assert_int_equal(listen_again(root, &more), 0);
	assert_int_equal(listen_again(root, &more), -ENOSPC);
	free(id);
}

/* Connect to address number `n`, which has no node. */
static int call(struct rig *rig, struct client *of[2], unsigned conn,
		unsigned n, struct mpib_handle nowhere)
{
	struct client *c = of[conn / MPIB_CONNS_MAX];
	int rc;

	nowhere.addr = htonl(0x7f180001u + n);
	rc = rig_try_call(c, conn % MPIB_CONNS_MAX, 0, &nowhere);

	mpib_loop_turn(&rig->node[0].loop, 0);
	return rc;
}

static void give_up(struct rig *rig, struct client *of[2], unsigned conn)
{
	struct client *c = of[conn / MPIB_CONNS_MAX];

	mpib_broker_drop(c->node->broker, &c->client, conn % MPIB_CONNS_MAX);
	rig_settle(rig);
}

rig_test(peers_are_limited_and_a_user_gets_a_quarter)
{
	struct client *of[USERS + 1][2] = { 0 }, *of_root[2] = { 0 }, *a, *b;
	unsigned n = 0, had[USERS] = { 0 };
	struct mpib_handle h;
	int rc = 0;

	rig_both_up(rig, &a, &b, 0);
	rig_connect(rig, a, 0, b, 0);
	rig_listen(b, &h);
	for (unsigned u = 0; u < USERS; u++) {
		for (unsigned i = 0; i < 2; i++)
			of[u][i] = rig_client(rig, 0, 2000 + u, 0);
		while (had[u] < 2 * MPIB_CONNS_MAX &&
		       (rc = call(rig, of[u], had[u], n, h)) == 0) {
			had[u]++;
			n++;
		}
	}
	assert_int_equal(had[0], PEERS_OF_ONE);
	assert_int_equal(HASH_COUNT(rig->node[0].broker->by_key),
			 PEERS - OF_ROOT(PEERS));
	/* Node 1 is a peer, too. */
	assert_int_equal(had[USERS - 1], PEERS_OF_ONE - 1 - OF_ROOT(PEERS));
	assert_int_equal(rc, -ENOSPC);
	of_root[0] = rig_client(rig, 0, 0, 0);
	assert_int_equal(call(rig, of_root, 0, n++, h), 0);
	rig_connect(rig, a, 1, b, 1);
	rig_connect(rig, b, 2, a, 2);
	/* A peer that no client needs any more is removed to make room. */
	give_up(rig, of[1], 5);
	rig_pass(rig, MPIB_SEC);
	assert_int_equal(call(rig, of[USERS - 1], had[USERS - 1], n, h), 0);
	/* A user at its limit gets another reason for the refusal. */
	give_up(rig, of[1], 6);
	rig_pass(rig, MPIB_SEC);
	n++;
	of[USERS][0] = rig_client(rig, 0, 2000, 0);
	assert_int_equal(call(rig, of[USERS], 0, n, h), -EDQUOT);
	give_up(rig, of[0], 7);
	rig_pass(rig, MPIB_SEC);
	assert_int_equal(call(rig, of[USERS], 0, n, h), 0);
}

/* Open a connection, which must fail because of the limit of lanes, and close
 * it again. Return the error. */
static int refused_lane(struct rig *rig, struct client *from, struct client *to,
			const char *why)
{
	struct mpib_handle handle;
	uint32_t id;
	int rc;

	id = rig_listen(to, &handle);
	rig_call(from, 0, 0, &handle);
	rig_settle(rig);
	assert_int_equal(rig_state(from, 0), MPIB_CONN_FAILED);
	rc = rig_error(from, 0);
	assert_in(rig_why(from, 0), why);
	mpib_broker_drop(from->node->broker, &from->client, 0);
	mpib_broker_close_listen(to->node->broker, &to->client, id);
	rig_settle(rig);
	return rc;
}

/* With private lanes, each connection has its own lane. */
rig_test(lanes_to_a_peer_are_limited_and_a_user_gets_a_quarter)
{
	const uint32_t most = MPIB_LANES_MAX - OF_ROOT(MPIB_LANES_MAX);
	struct client *a[USERS], *b[USERS], *c, *d;

	rig->private_lanes = true;
	rig_up(rig, 0);
	rig_up(rig, 1);
	for (unsigned u = 0; u < USERS; u++) {
		a[u] = rig_client(rig, 0, 1000 + u, 0);
		b[u] = rig_client(rig, 1, 1000 + u, 0);
		for (uint32_t i = 0; i < MPIB_LANES_OF_ONE_MAX; i++) {
			if (u * MPIB_LANES_OF_ONE_MAX + i < most)
				rig_connect(rig, a[u], i, b[u], i);
		}
	}
	c = rig_client(rig, 0, 1000, 0);
	d = rig_client(rig, 1, 1000, 0);
	assert_int_equal(refused_lane(rig, c, d, "uid 1000 has 1024 lanes"),
			 -EDQUOT);
	/* After one of the user's lanes is closed, the user may open
	 * another. */
	mpib_broker_drop(a[0]->node->broker, &a[0]->client, 3);
	mpib_broker_drop(b[0]->node->broker, &b[0]->client, 3);
	rig_pass(rig, 61 * MPIB_SEC);
	rig_connect(rig, c, 0, d, 0);
	/* A fifth user gets no lane until other users close some. Root still
	 * gets a lane. */
	c = rig_client(rig, 0, 2000, 0);
	d = rig_client(rig, 1, 2000, 0);
	assert_int_equal(refused_lane(rig, c, d, " lanes for this node"),
			 -ENOSPC);
	rig_connect(rig, rig_client(rig, 0, 0, 0), 0, rig_client(rig, 1, 0, 0),
		    0);
	mpib_broker_drop(a[2]->node->broker, &a[2]->client, 9);
	mpib_broker_drop(b[2]->node->broker, &b[2]->client, 9);
	mpib_broker_drop(a[2]->node->broker, &a[2]->client, 10);
	mpib_broker_drop(b[2]->node->broker, &b[2]->client, 10);
	rig_pass(rig, 61 * MPIB_SEC);
	rig_connect(rig, c, 0, d, 0);
}
