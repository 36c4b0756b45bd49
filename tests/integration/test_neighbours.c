/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer that writes where it likes with the keys that it was given reaches no
 * connection of another peer. Several lanes of one tenant stand for its peers. The
 * connections of one lane move checked messages from node 0 to node 1. On each
 * other lane node 1 writes CTS to places around the tables that it was told of.
 */
#include "engine_pair.h"
#include "test.h"

#define HONEST 8u /* connections */
#define HOSTILE 100u /* index of the hostile peer's, in the clients */
#define FAR (64 << 10) /* bytes before and behind the tables that are tried */
#define LEN 3000u

static struct pair honest;
static struct pair_end tx[HONEST], rx[HONEST];

/* 32 CTS are 2 KiB. */
static void write_cts_at(struct pair *peer, uint32_t index, int off)
{
	struct pair_node *n = &peer->node[1];
	struct engine_conn_info told, own;
	struct pair_end to, from;

	pair_make_end(peer, 0, index, true, MPIB_TABLE_SLOTS, &to);
	pair_make_end(peer, 1, index, false, MPIB_TABLE_SLOTS, &from);
	engine_conn_local(to.conn, &told);
	engine_conn_local(from.conn, &own);
	told.addr += (uint64_t)(int64_t)off;
	engine_conn_start(to.conn, &own);
	engine_conn_start(from.conn, &told);
	for (uint8_t req = 0; req < MPIB_REQUESTS; req++)
		pair_post(&from, MPIB_OP_RECV, req, n->mr, 0, 64, 7);
	pair_turns(peer, 100);
}

static void a_peer_reaches_no_connection_of_another_peer(void **state)
{
	const int step = MPIB_REQUESTS * (int)sizeof(struct mpib_cts);
	struct mpib_engine_config cfg;
	struct pair peer;
	uint32_t tries = 0;

	mpib_engine_config_init(&cfg);
	cfg.completion = MPIB_COMPLETION_DELIVERED;
	pair_open(&honest, &cfg, MPIB_IMM_V2);
	for (unsigned i = 0; i < HONEST; i++)
		pair_connect(&honest, i, 0, &tx[i], &rx[i]);
	for (int off = -FAR; off <= FAR; off += step, tries++) {
		/* What the key does not open ends the lane. */
		pair_more_lane(&honest, &peer);
		write_cts_at(&peer, HOSTILE + tries, off);
		for (unsigned i = 0; i < HONEST; i++)
			pair_transfer(&honest, &tx[i], &rx[i], 0, LEN, LEN,
				      tries + i);
	}
	assert_true(honest.node[1].lanes_broken > 0);
}

static void keys_differ(const struct engine_conn *one,
			const struct engine_conn *other)
{
	struct engine_conn_info first, second;

	engine_conn_local(one, &first);
	engine_conn_local(other, &second);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		assert_int_not_equal(first.rkey[r], second.rkey[r]);
}

/* Neither the CTS that a receiver writes, nor the records that a sender does. */
static void a_key_opens_tables_of_one_lane(void **state)
{
	struct pair peer, user;

	pair_open_at(&honest, 512, MPIB_IMM_V2, &tx[0], &rx[0]);
	pair_more_lane(&honest, &peer);
	pair_connect(&peer, HOSTILE, 0, &tx[1], &rx[1]);
	pair_join(&honest, &user, 1000);
	pair_connect(&user, 0, 0, &tx[2], &rx[2]);
	for (unsigned i = 1; i <= 2; i++) {
		keys_differ(tx[0].conn, tx[i].conn);
		keys_differ(rx[0].conn, rx[i].conn);
	}
	pair_close(&honest);
	pair_leave(&user);
}

const struct CMUnitTest test_list[] = {
	pair_test(a_peer_reaches_no_connection_of_another_peer),
	pair_test(a_key_opens_tables_of_one_lane),
	{ 0 },
};
