/* SPDX-License-Identifier: Apache-2.0 */
/* Test engine/lane/qps.c between two nodes on software rails. In one turn, a
 * shard posts all WRs for a QP in order and with one doorbell, even if the WRs
 * belong to different connections. Two tests check a QP that refuses WRs. */
#include <errno.h>

#include "engine/conn/conn.h"
#include "engine/recovery/stop.h"
#include "engine_pair.h"
#include "test.h"

#define FLOWS 8
#define LEN 1000u
#define RX (PAIR_MEM / 2)

static struct pair pair;
static struct pair_end tx[FLOWS], rx[FLOWS];

static int setup(void **state)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	cfg.sup_bw = 0;
	cfg.qps[0] = cfg.qps[1] = 1;
	pair_open(&pair, &cfg, MPIB_IMM_V2);
	for (uint32_t i = 0; i < FLOWS; i++)
		pair_connect(&pair, i, 0, &tx[i], &rx[i]);
	return 0;
}

static void counts(uint64_t *posts, uint64_t *wrs)
{
	*posts = pair.node[0].engine->shard[0].rail[0].n.posts;
	*wrs = 0;
	for (uint32_t i = 0; i < FLOWS; i++)
		*wrs += tx[i].conn->n[0].tx_wrs;
}

#define CASE(name) TEST_OF(name, setup, pair_teardown)

CASE(sends_of_many_connections_are_posted_by_one_doorbell)
{
	uint64_t posts[2], wrs[2];
	uint32_t g_rx[FLOWS], g_tx[FLOWS];

	for (uint32_t i = 0; i < FLOWS; i++)
		g_rx[i] = pair_post(&rx[i], MPIB_OP_RECV, 0, pair.node[1].mr,
				    RX + i * LEN, LEN, 0);
	pair_turns(&pair, 1000);
	memset(pair.node[0].mem, 7, FLOWS * LEN);
	for (uint32_t i = 0; i < FLOWS; i++)
		g_tx[i] = pair_post(&tx[i], MPIB_OP_SEND, 0, pair.node[0].mr,
				    i * LEN, LEN, 0);
	counts(&posts[0], &wrs[0]);
	mpib_shard_turn(&pair.node[0].engine->shard[0]);
	counts(&posts[1], &wrs[1]);
	assert_int_equal(wrs[1] - wrs[0], FLOWS);
	assert_int_equal(posts[1] - posts[0], 1);
	for (uint32_t i = 0; i < FLOWS; i++) {
		assert_int_equal(pair_wait(&pair, &rx[i], 0, g_rx[i]), LEN);
		assert_int_equal(pair_wait(&pair, &tx[i], 0, g_tx[i]), LEN);
	}
	assert_memory_equal(pair.node[0].mem, pair.node[1].mem + RX,
			    FLOWS * LEN);
}

/* Post a receive and wait until the sender has its CTS. Then put the lane's
 * first QP into RESET, so that it accepts no more WRs. */
static void refuse_next(struct mpib_lane *lane, bool failover)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	lane->failover = failover;
	pair_post(&rx[0], MPIB_OP_RECV, 0, pair.node[1].mr, RX, LEN, 0);
	pair_turns(&pair, 1000);
	assert_int_equal(lane->shard->rail[0].verbs->modify_qp(
				 lane->qp[0][0].qp, &reset, IBV_QP_STATE),
			 0);
}

/* Without failover, the lane and its connections fail. */
CASE(a_qp_that_refuses_wrs_breaks_a_lane_of_one_rail)
{
	struct mpib_lane *lane = pair.node[0].lane;
	uint32_t g;

	refuse_next(lane, false);
	g = pair_post(&tx[0], MPIB_OP_SEND, 0, pair.node[0].mr, 0, LEN, 0);
	assert_int_equal(pair_wait(&pair, &tx[0], 0, g), -ECONNRESET);
	pair_turns(&pair, 10);
	assert_int_equal(pair.node[0].lanes_broken, 1);
	assert_int_equal(pair.node[0].broken, FLOWS);
	assert_non_null(strstr(pair.node[0].why, "ibv_post_send"));
}

/* With failover, only SOUT fails, the rail of the QP that refuses WRs. */
CASE(a_qp_that_refuses_wrs_stops_only_its_rail)
{
	struct mpib_lane *lane = pair.node[0].lane;

	refuse_next(lane, true);
	pair_post(&tx[0], MPIB_OP_SEND, 0, pair.node[0].mr, 0, LEN, 0);
	for (unsigned i = 0; i < 10; i++)
		mpib_shard_turn(lane->shard);
	assert_int_equal(lane->open, 1u << MPIB_RAIL_SUP);
	assert_false(lane->broken);
}
