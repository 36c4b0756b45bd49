/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of a removed device and of a failed rail. The tests check objects that
 * are made after the failure but before its event arrives, and writes that are
 * still outstanding.
 */

#include <errno.h>

#include "engine/conn/conn.h"
#include "engine/recovery/stop.h"
#include "engine_pair.h"
#include "test.h"
#include "verbs/soft/soft.h"

#define BYTES (64u << 10)
#define LITTLE 64u /* size of a message that SOUT carries alone */

static struct pair pair;
static struct pair_end tx, rx;

static int setup(void **state)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	cfg.sup_bw = 512;
	pair_open(&pair, &cfg, MPIB_IMM_V2);
	pair_connect(&pair, 5, 0, &tx, &rx);
	return 0;
}

static struct mpib_shard *shard(void)
{
	return &pair.node[1].engine->shard[0];
}

/* Remove the device without an event. */
static void take_away(unsigned rail)
{
	struct mpib_soft_fault gone = { .gone = 1 };

	assert_int_equal(mpib_soft_set_fault(shard()->rail[rail].ctx, &gone),
			 0);
}

static void first_device_memory_without_a_device(unsigned rail)
{
	uint32_t mr;

	take_away(rail);
	mr = pair_add_device(&pair, 1, BYTES, NULL);
	assert_true(shard()->rail[rail].dead);
	assert_false(shard()->rail[!rail].dead);
	assert_null(pair.node[1].engine_client->mr_made[mr]->mr[rail]);
	assert_non_null(pair.node[1].engine_client->mr_made[mr]->mr[!rail]);
}

#define CASE(name) TEST_OF(name, setup, pair_teardown)

/* The region is the tenant's first region of device memory, so its registration
 * also makes the QPs for flush reads. */
CASE(device_memory_is_registered_after_a_device_is_gone)
{
	first_device_memory_without_a_device(0);
	pair_teardown(state);
	setup(state);
	first_device_memory_without_a_device(1);
}

/* Enable failover at node 1's end of the lane. From now on, the test acts as
 * the peer of node 1. */
static struct mpib_lane *settled_lane(void)
{
	struct mpib_lane *lane = pair.node[1].lane;

	lane->failover = true;
	mpib_lane_established(lane);
	return lane;
}

static void peer_fenced(struct mpib_lane *lane, unsigned rail)
{
	const struct mpib_rail_msg m = { .type = MPIB_RAIL_FENCED,
					 .rail = (uint8_t)rail };

	assert_true(mpib_lane_receive(lane, &m));
}

static void until_stopped(struct mpib_lane *lane, unsigned rail)
{
	for (unsigned i = 0;
	     lane->rail[rail].state != MPIB_RAIL_STOPPED && i < 100000; i++)
		pair_turn(&pair);
	assert_int_equal(lane->rail[rail].state, MPIB_RAIL_STOPPED);
}

/* The peer sends bitmaps for more connections than exist. */
/* Node 1 finds out only when it connects the QPs. Then it excludes the rail,
 * and the lane works on the other rail. */
CASE(a_lane_is_connected_after_a_device_is_gone)
{
	struct mpib_lane_info a, b;
	struct mpib_lane *lane[2];
	char why[200] = "";

	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(mpib_lane_create(pair.node[i].tenant,
						  i ? 0 : MPIB_IMM_V2,
						  pair.path, i ? &a : NULL,
						  &lane[i]),
				 0);
		lane[i]->failover = true;
		mpib_lane_local(lane[i], i ? &b : &a);
	}
	take_away(MPIB_RAIL_SUP);
	assert_int_equal(mpib_lane_connect(lane[1], &a, why, sizeof(why)), 0);
	assert_int_equal(lane[1]->away, 1u << MPIB_RAIL_SUP);
	mpib_lane_local(lane[1], &b);
	assert_int_equal(mpib_lane_connect(lane[0], &b, why, sizeof(why)), 0);
}

CASE(bitmaps_for_more_connections_than_exist_are_refused)
{
	struct mpib_rail_msg m = { .type = MPIB_RAIL_FENCED,
				   .more = true,
				   .bitmaps = 1 };
	struct mpib_lane *lane = settled_lane();
	unsigned told = 0;

	while (told < 1000 && mpib_lane_receive(lane, &m))
		told += m.bitmaps;
	assert_in_range(told, 1, 999);
	assert_in_range(lane->ctl.rail[0].theirs.n, 1, told);
}

/* The fence makes the receiver post CTS again that the sender has already read,
 * because the peer stopped its end of the rail before these CTS arrived on the
 * other rail. The sender reads no CTS twice. This was a bug: the receiver
 * posted the ack of the first message only with repeated CTS, and the send
 * never completed. */
CASE(an_ack_in_repeated_cts_is_also_written_alone)
{
	struct mpib_lane *lane = settled_lane();
	int32_t result;

	for (uint8_t i = 0; i < 3; i++)
		pair_post(&rx, MPIB_OP_RECV, i, pair.node[1].mr,
			  PAIR_RX + i * LITTLE, LITTLE, 7);
	pair_turns(&pair, 1000);
	assert_true(mpib_lane_fault(lane, MPIB_RAIL_SUP, MPIB_CAUSE_ERROR));
	until_stopped(lane, MPIB_RAIL_SUP);
	pair_post(&tx, MPIB_OP_SEND, 0, pair.node[0].mr, 0, LITTLE, 7);
	while (tx.conn->tx.cts_seen < 3)
		pair_turn_sender(&pair);
	/* Handle the message in a turn that ends before its ack is posted. */
	mpib_shard_turn(shard());
	assert_true(mpib_completion_poll(pair_completion(&rx, 0), 1, &result));
	peer_fenced(lane, MPIB_RAIL_SUP);
	assert_int_equal(pair_wait(&pair, &tx, 0, 1), LITTLE);
	lane->failover = false;
}

/* The lost bytes belong to several send ops, whose numbers wrap. */
CASE(lost_bytes_are_sent_over_the_other_rail)
{
	const struct mpib_soft_fault hole = { .black_hole = 1 };
	struct mpib_lane *lane = settled_lane();
	struct pair_end from, to;
	uint32_t gen[4];

	pair_connect(&pair, 6, 1, &from, &to);
	pair_fill(pair.node[1].mem, 4 * BYTES, 3);
	for (uint8_t i = 0; i < 4; i++)
		gen[i] = pair_post(&to, MPIB_OP_RECV, i, pair.node[0].mr,
				   PAIR_RX + i * BYTES, BYTES, 7);
	pair_turns(&pair, 1000);
	assert_int_equal(
		mpib_soft_set_fault(shard()->rail[MPIB_RAIL_SOUT].ctx, &hole),
		0);
	for (uint8_t i = 0; i < 4; i++)
		pair_post(&from, MPIB_OP_SEND, i, pair.node[1].mr, i * BYTES,
			  BYTES, 7);
	while (from.conn->tx.op_head - from.conn->tx.op_tail < 4)
		mpib_shard_turn(shard());
	assert_true(mpib_lane_fault(lane, MPIB_RAIL_SOUT, MPIB_CAUSE_ERROR));
	until_stopped(lane, MPIB_RAIL_SOUT);
	peer_fenced(lane, MPIB_RAIL_SOUT);
	for (uint8_t i = 0; i < 4; i++)
		assert_int_equal(pair_wait(&pair, &to, i, gen[i]), BYTES);
	assert_memory_equal(pair.node[0].mem + PAIR_RX, pair.node[1].mem,
			    4 * BYTES);
	lane->failover = false;
}

static int never_err(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR)
		return -ENOMEM;
	return mpib_verbs_soft.modify_qp(qp, attr, mask);
}

CASE(a_rail_is_lost_if_its_qps_cannot_be_set_to_err)
{
	struct mpib_rail *rail = &shard()->rail[MPIB_RAIL_SUP];
	struct mpib_verbs verbs = mpib_verbs_soft;
	struct mpib_lane *lane = settled_lane();

	verbs.modify_qp = never_err;
	rail->verbs = &verbs;
	assert_true(mpib_lane_fault(lane, MPIB_RAIL_SUP, MPIB_CAUSE_ERROR));
	until_stopped(lane, MPIB_RAIL_SUP);
	assert_true(rail->lost);
	peer_fenced(lane, MPIB_RAIL_SUP);
	rail->verbs = &mpib_verbs_soft;
	lane->failover = false;
}

/* In this test, the shard has found the fault, but the control thread has not
 * handled it yet, so the fence has not begun. */
CASE(a_connection_stops_only_after_the_fence_of_a_failed_rail)
{
	struct mpib_lane *lane = settled_lane();
	bool stopped = false;

	assert_true(mpib_lane_fault(lane, MPIB_RAIL_SUP, MPIB_CAUSE_ERROR));
	engine_conn_stop(rx.conn, -ECANCELED, pair_set_flag, &stopped);
	mpib_shard_turn(shard());
	assert_int_equal(rx.conn->state, ENGINE_CONN_STOPPING);
	until_stopped(lane, MPIB_RAIL_SUP);
	pair_turns(&pair, 100);
	assert_false(stopped);
	peer_fenced(lane, MPIB_RAIL_SUP);
	pair_until(&pair, &stopped);
	lane->failover = false;
}

/* Let the stop timer of the rail expire `n` times. */
static void ticks(struct mpib_lane *lane, unsigned rail, unsigned n)
{
	struct mpib_engine *e = pair.node[1].engine;

	for (unsigned i = 0; i < n; i++) {
		lane->ctl.rail[rail].due = 1;
		e->armed = 0;
		mpib_rail_arm(e, 1);
		pair_turns(&pair, 4);
	}
}

static int only_said(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR)
		return 0;
	return mpib_verbs_soft.modify_qp(qp, attr, mask);
}

/* Once the receive bitmaps of the failed rail are sent, the sender may replay
 * each stripe that they lack. So a stripe that arrives later must not count. In
 * this test, the device reports that its QPs are in ERR but still receives. */
CASE(data_that_arrives_after_the_bitmap_does_not_count)
{
	struct mpib_rail *rail = &shard()->rail[MPIB_RAIL_SOUT];
	struct mpib_verbs verbs = mpib_verbs_soft;
	struct mpib_lane *lane = settled_lane();
	int32_t result;

	pair_post(&rx, MPIB_OP_RECV, 0, pair.node[1].mr, PAIR_RX, BYTES, 7);
	pair_turns(&pair, 1000);
	verbs.modify_qp = only_said;
	rail->verbs = &verbs;
	assert_true(mpib_lane_fault(lane, MPIB_RAIL_SOUT, MPIB_CAUSE_ERROR));
	pair_turns(&pair, 100);
	assert_false(rail->lost);
	pair_post(&tx, MPIB_OP_SEND, 0, pair.node[0].mr, 0, BYTES, 7);
	pair_turns(&pair, 1000);
	assert_false(mpib_completion_poll(pair_completion(&rx, 0), 1, &result));
	assert_int_not_equal(rail->n.stale_imms, 0);
	rail->verbs = &mpib_verbs_soft;
	lane->failover = false;
}

CASE(a_rail_that_flushes_nothing_is_lost)
{
	const struct mpib_soft_fault hole = { .black_hole = 1 };
	struct mpib_rail *rail = &shard()->rail[MPIB_RAIL_SUP];
	struct mpib_verbs verbs = mpib_verbs_soft;
	struct mpib_lane *lane = settled_lane();

	verbs.modify_qp = only_said;
	rail->verbs = &verbs;
	assert_int_equal(mpib_soft_set_fault(rail->ctx, &hole), 0);
	assert_true(mpib_lane_fault(lane, MPIB_RAIL_SUP, MPIB_CAUSE_ERROR));
	pair_turns(&pair, 100);
	assert_int_equal(lane->rail[MPIB_RAIL_SUP].state, MPIB_RAIL_STOPPING);
	assert_false(rail->lost);
	ticks(lane, MPIB_RAIL_SUP, 50);
	assert_true(rail->lost);
	assert_int_equal(lane->rail[MPIB_RAIL_SUP].state, MPIB_RAIL_STOPPED);
	assert_false(lane->broken);
	peer_fenced(lane, MPIB_RAIL_SUP);
	rail->verbs = &mpib_verbs_soft;
	lane->failover = false;
}

CASE(a_lane_breaks_if_the_peer_never_stops_the_rail)
{
	struct mpib_lane *lane = settled_lane();

	assert_true(mpib_lane_fault(lane, MPIB_RAIL_SUP, MPIB_CAUSE_ERROR));
	until_stopped(lane, MPIB_RAIL_SUP);
	pair_turns(&pair, 100);
	assert_false(lane->broken);
	ticks(lane, MPIB_RAIL_SUP, 200);
	assert_true(lane->broken);
	lane->failover = false;
}

/* The receive bitmap contains slots for which the sender cannot have sent
 * anything yet. */
CASE(a_bitmap_of_unsent_slots_breaks_the_lane)
{
	struct mpib_lane *lane = settled_lane();
	struct mpib_rail_msg m = { .type = MPIB_RAIL_FENCED,
				   .rail = MPIB_RAIL_SUP,
				   .bitmaps = 1 };
	struct pair_end from, to;

	pair_connect(&pair, 6, 1, &from, &to);
	m.bitmap[0].conn = from.conn->remote.id;
	m.bitmap[0].first = from.conn->tx.cts_next + MPIB_TABLE_SLOTS + 1;
	assert_true(mpib_lane_fault(lane, MPIB_RAIL_SUP, MPIB_CAUSE_ERROR));
	until_stopped(lane, MPIB_RAIL_SUP);
	assert_true(mpib_lane_receive(lane, &m));
	pair_turns(&pair, 100);
	assert_int_equal(from.conn->error, -EPROTO);
	assert_in_range(from.conn->tx.acked, 0, from.conn->tx.cts_next);
	lane->failover = false;
}
