/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of adaptive mode between two nodes on software rails. The tests check
 * how many bytes each rail carries, and in how many WRs.
 * tests/unit/engine/test_settle.c tests the algorithm itself.
 */
#include <stdlib.h>

#include "draw.h"
#include "engine/conn/conn.h"
#include "engine/split/mode.h"
#include "engine_pair.h"
#include "test.h"

#define KIB 1024u
#define RX (PAIR_MEM / 2)
#define DEPTH 8u

static struct pair pair;
static struct pair_end tx, rx;

static int setup(void **state)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	cfg.mode = MPIB_MODE_ADAPTIVE;
	pair_open_on(&pair, &cfg, MPIB_IMM_V2, MPIB_PATH_UNKNOWN);
	pair_connect(&pair, 5, 0, &tx, &rx);
	return 0;
}

/* Transfer `n` messages of `len` bytes in parallel. */
static void transfer(unsigned n, uint32_t len)
{
	uint32_t g_rx[DEPTH], g_tx[DEPTH];

	for (unsigned i = 0; i < n; i++)
		g_rx[i] = pair_post(&rx, MPIB_OP_RECV, i, pair.node[1].mr,
				    RX + i * len, len, (int32_t)i);
	for (unsigned i = 0; i < n; i++)
		g_tx[i] = pair_post(&tx, MPIB_OP_SEND, i, pair.node[0].mr,
				    i * len, len, (int32_t)i);
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(pair_wait(&pair, &rx, i, g_rx[i]), len);
		assert_int_equal(pair_wait(&pair, &tx, i, g_tx[i]), len);
	}
}

struct sent {
	uint64_t wrs, cqes, bytes[MPIB_RAILS];
};

static struct sent sent(void)
{
	struct mpib_snapshot *a = pair_snapshot(&pair, 0);
	struct sent s = { 0 };

	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		s.wrs += a->rail[r].n.tx_wrs;
		s.cqes += a->rail[r].cqes;
		s.bytes[r] = a->rail[r].n.tx_bytes;
	}
	mpib_snapshot_free(a);
	return s;
}

/* The split depends on measured times, so on a busy machine one rail may get
 * only a few bytes. */
static void assert_both_used(uint64_t sup, uint64_t all)
{
	assert_in_range(sup, 1, all - 1);
}

#define CASE(name) TEST_OF(name, setup, pair_teardown)

CASE(whole_messages_in_flight_use_both_rails)
{
	struct sent s;
	uint64_t sum = 40ull * DEPTH * 128 * KIB;

	for (unsigned i = 0; i < 40; i++)
		transfer(DEPTH, 128 * KIB);
	s = sent();
	assert_int_equal(s.bytes[0] + s.bytes[1], sum);
	assert_both_used(s.bytes[MPIB_RAIL_SUP], sum);
	/* Check that almost every message is one WR and one completion. */
	assert_in_range(s.wrs, 40 * DEPTH, 40 * DEPTH * 11 / 10);
	assert_in_range(s.cqes, 40 * DEPTH, 40 * DEPTH * 11 / 10);
}

CASE(single_messages_use_both_rails)
{
	struct sent s;
	uint64_t sum = 200ull * 128 * KIB;

	for (unsigned i = 0; i < 200; i++)
		transfer(1, 128 * KIB);
	s = sent();
	assert_int_equal(s.bytes[0] + s.bytes[1], sum);
	assert_both_used(s.bytes[MPIB_RAIL_SUP], sum);
}

/* Send `n` messages in parallel over each pair's connection. */
static void transfer_both(struct pair_end *tx2, struct pair_end *rx2,
			  struct pair *more, unsigned n, uint32_t len)
{
	struct pair_end *to[] = { &rx, rx2 }, *from[] = { &tx, tx2 };
	struct pair *p[] = { &pair, more };
	uint32_t g_rx[2][DEPTH], g_tx[2][DEPTH];

	for (unsigned i = 0; i < 2 * n; i++)
		g_rx[i % 2][i / 2] = pair_post(
			to[i % 2], MPIB_OP_RECV, i / 2, p[i % 2]->node[1].mr,
			RX + i / 2 * len, len, (int32_t)(i / 2));
	for (unsigned i = 0; i < 2 * n; i++)
		g_tx[i % 2][i / 2] = pair_post(
			from[i % 2], MPIB_OP_SEND, i / 2, p[i % 2]->node[0].mr,
			i / 2 * len, len, (int32_t)(i / 2));
	for (unsigned i = 0; i < 2 * n; i++) {
		assert_int_equal(
			pair_wait(&pair, to[i % 2], i / 2, g_rx[i % 2][i / 2]),
			len);
		assert_int_equal(pair_wait(&pair, from[i % 2], i / 2,
					   g_tx[i % 2][i / 2]),
				 len);
	}
}

static void assert_lane_used_both(const struct pair *p)
{
	const struct mpib_tracker *t = p->node[0].lane->track;
	uint64_t sout = t[MPIB_RAIL_SOUT].acked_bytes;
	uint64_t sup = t[MPIB_RAIL_SUP].acked_bytes;

	assert_int_equal(sout + sup, 40ull * DEPTH * 128 * KIB);
	assert_both_used(sup, sout + sup);
}

/* Each shard splits according to its own bytes in flight. */
TEST_OF(two_shards_of_a_device_both_use_both_rails, NULL, pair_teardown)
{
	struct pair more;
	struct pair_end tx2, rx2;
	struct mpib_engine_config cfg;
	struct sent s;

	mpib_engine_config_init(&cfg);
	cfg.mode = MPIB_MODE_ADAPTIVE;
	cfg.shards = 2;
	pair_open_on(&pair, &cfg, MPIB_IMM_V2, MPIB_PATH_UNKNOWN);
	pair_join_on(&pair, &more, 1, 1, 1);
	pair_connect(&pair, 5, 0, &tx, &rx);
	pair_connect(&more, 6, 0, &tx2, &rx2);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		assert_ptr_not_equal(pair.node[0].lane->track[r].sum,
				     more.node[0].lane->track[r].sum);
	for (unsigned i = 0; i < 40; i++)
		transfer_both(&tx2, &rx2, &more, DEPTH, 128 * KIB);
	assert_lane_used_both(&pair);
	assert_lane_used_both(&more);
	s = sent();
	assert_int_equal(s.bytes[0] + s.bytes[1], 80ull * DEPTH * 128 * KIB);
	assert_in_range(s.wrs, 80 * DEPTH, 80 * DEPTH * 11 / 10);
	pair_close(&pair);
	pair_leave(&more);
}
