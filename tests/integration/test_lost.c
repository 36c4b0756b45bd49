/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that is gone, or a rail that failed: what is made before its event is
 * there, and what its connections still had to write.
 */
#include <errno.h>

#include "engine/conn/conn.h"
#include "engine/recovery/stop.h"
#include "engine_pair.h"
#include "test.h"
#include "verbs/soft/soft.h"

#define BYTES (64u << 10)

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

/* Nothing says so yet. */
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

/* The tenant's first makes the QPs that flushes read back with. */
static void
the_first_device_memory_is_registered_though_a_device_is_gone(void **state)
{
	first_device_memory_without_a_device(0);
	pair_teardown(state);
	setup(state);
	first_device_memory_without_a_device(1);
}

/* Node 1's end fails over. Its peer is played here. */
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

/* Of connections that never were, without end. */
static void a_peer_tells_of_no_more_connections_than_there_were(void **state)
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

/* There was no WR for it until the turn before the device is lost. */
static void a_last_write_does_not_go_by_the_rail_that_is_lost(void **state)
{
	struct mpib_lane *lane = settled_lane();
	bool stopped = false;
	unsigned home, left;

	pair_transfer(&pair, &tx, &rx, 1, BYTES, BYTES, 1);
	home = engine_conn_home(rx.conn);
	assert_true(rx.conn->wrote & 1u << home);
	left = shard()->wrs.left;
	shard()->wrs.left = 0;
	engine_conn_stop(rx.conn, -ECONNABORTED, pair_set_flag, &stopped);
	mpib_shard_turn(shard());
	mpib_shard_turn(shard());
	assert_false(stopped);
	assert_true(rx.conn->wrote & 1u << home);
	shard()->wrs.left = left;
	take_away(home);
	mpib_async_turn(shard());
	peer_fenced(lane, home);
	pair_until(&pair, &stopped);
	lane->failover = false;
}

/* The control thread has not heard of it yet. What was written by that rail, an
 * ack for one, may be lost, and only the fence's bitmaps tell the peer. */
static void who_stops_waits_for_the_fence_of_a_rail_that_failed(void **state)
{
	struct mpib_lane *lane = settled_lane();
	bool stopped = false;
	unsigned home;

	pair_transfer(&pair, &tx, &rx, 1, BYTES, BYTES, 1);
	home = engine_conn_home(rx.conn);
	assert_true(rx.conn->wrote & 1u << home);
	assert_true(mpib_lane_fault(lane, home, MPIB_CAUSE_ERROR));
	engine_conn_stop(rx.conn, -ECONNABORTED, pair_set_flag, &stopped);
	for (unsigned i = 0; i < 8; i++) {
		mpib_shard_turn(&pair.node[0].engine->shard[0]);
		mpib_shard_turn(shard());
	}
	assert_false(rx.conn->stopped);
	peer_fenced(lane, home);
	pair_until(&pair, &stopped);
	lane->failover = false;
}

static int (*post_all)(struct ibv_qp *, struct ibv_send_wr *,
		       struct ibv_send_wr **);

/* A device that takes all but last writes. */
static int refuse_stop(struct ibv_qp *qp, struct ibv_send_wr *wr,
		       struct ibv_send_wr **bad)
{
	if (mpib_wr_kind(wr->wr_id) != MPIB_WR_STOP)
		return post_all(qp, wr, bad);
	*bad = wr;
	return ENOMEM;
}

/* No completion tells of a last write that was refused: the rail's fence does. */
static void who_stops_does_not_wait_for_what_was_refused(void **state)
{
	struct mpib_lane *lane = settled_lane();
	bool stopped = false;
	struct ibv_context *ctx;
	unsigned home;

	pair_transfer(&pair, &tx, &rx, 1, BYTES, BYTES, 1);
	home = engine_conn_home(rx.conn);
	ctx = shard()->rail[home].ctx;
	post_all = ctx->ops.post_send;
	ctx->ops.post_send = refuse_stop;
	engine_conn_stop(rx.conn, -ECONNABORTED, pair_set_flag, &stopped);
	while (!lane->stop[home].told)
		pair_turn(&pair);
	assert_true(rx.conn->stop_posted & 1u << home);
	assert_false(stopped);
	peer_fenced(lane, home);
	pair_until(&pair, &stopped);
	lane->failover = false;
}

static int (*poll_all)(struct ibv_cq *, int, struct ibv_wc *);
static bool is_full;

static int poll_and_free(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	is_full = false;
	return poll_all(cq, n, wc);
}

/* A QP whose queue has no place until completions are polled. */
static int refuse_while_full(struct ibv_qp *qp, struct ibv_send_wr *wr,
			     struct ibv_send_wr **bad)
{
	if (!is_full)
		return post_all(qp, wr, bad);
	*bad = wr;
	return ENOMEM;
}

static unsigned fill_queues(void)
{
	unsigned home = engine_conn_home(rx.conn);
	struct ibv_context *ctx = shard()->rail[home].ctx;

	pair_transfer(&pair, &tx, &rx, 1, BYTES, BYTES, 1);
	/* A CTS, of which no completion will tell. */
	assert_int_not_equal(mpib_qp_outstanding(engine_conn_cts_qp(rx.conn)),
			     0);
	post_all = ctx->ops.post_send;
	poll_all = ctx->ops.poll_cq;
	ctx->ops.post_send = refuse_while_full;
	ctx->ops.poll_cq = poll_and_free;
	return home;
}

static void a_rail_stops_though_its_queue_was_full(void **state)
{
	struct mpib_lane *lane = settled_lane();
	unsigned home = fill_queues();
	bool stopped = false;

	assert_true(mpib_lane_fault(lane, home, MPIB_CAUSE_ERROR));
	mpib_engine_dispatch(pair.node[1].engine);
	is_full = true; /* the mailbox comes before completions */
	pair_turns(&pair, 1000);
	assert_true(lane->stop[home].told);
	peer_fenced(lane, home);
	engine_conn_stop(rx.conn, -ECONNABORTED, pair_set_flag, &stopped);
	pair_until(&pair, &stopped);
	lane->failover = false;
}

static void a_lane_stops_though_its_queue_was_full(void **state)
{
	bool killed = false;

	fill_queues();
	mpib_lane_kill(pair.node[1].lane, pair_set_flag, &killed);
	is_full = true;
	pair_until(&pair, &killed);
}

/* The peer had them by the other rail, and does not look at them again. */
static void an_ack_does_not_only_go_with_cts_that_are_posted_again(void **state)
{
	struct mpib_sender *s = &tx.conn->tx;
	struct mpib_receiver *r = &rx.conn->rx;
	uint32_t gen;

	pair.node[0].lane->delivered = pair.node[1].lane->delivered = true;
	for (uint8_t i = 0; i < 3; i++)
		pair_post(&rx, MPIB_OP_RECV, i, pair.node[1].mr,
			  PAIR_RX + i * BYTES, BYTES, 7);
	while (r->cts_posted < 3)
		mpib_shard_turn(shard());
	gen = pair_post(&tx, MPIB_OP_SEND, 0, pair.node[0].mr, 0, BYTES, 7);
	/* Here completions alone are looked at, so that no ack is written. */
	while (s->cts_seen < 3 || r->tail < 1) {
		mpib_shard_turn(&pair.node[0].engine->shard[0]);
		mpib_cq_turn(shard());
	}
	/* As after a fence, find_lost.c. */
	r->acked = MPIB_NOT_ACKED;
	r->cts_again = 1;
	mpib_receiver_post_cts(rx.conn);
	assert_int_equal(pair_wait(&pair, &tx, 0, gen), BYTES);
}

/* A write whose completion the rail took with it may be on its way into a GPU, and
 * would come into a buffer that is used again. */
static void
a_flush_after_a_fence_reads_through_the_rail_that_failed(void **state)
{
	struct mpib_lane *lane = settled_lane();
	unsigned rail = MPIB_RAIL_SUP;

	assert_int_equal(rx.conn->rx.flush.arrived[rail], 0);
	assert_true(mpib_lane_fault(lane, rail, MPIB_CAUSE_ERROR));
	while (!lane->stop[rail].told)
		pair_turn(&pair);
	assert_int_not_equal(rx.conn->rx.flush.arrived[rail], 0);
	peer_fenced(lane, rail);
	lane->failover = false;
}

/* All of several send ops, whose numbers wrap. */
static void what_a_rail_lost_goes_by_the_other(void **state)
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
	while (!lane->stop[MPIB_RAIL_SOUT].told)
		pair_turn(&pair);
	peer_fenced(lane, MPIB_RAIL_SOUT);
	for (uint8_t i = 0; i < 4; i++)
		assert_int_equal(pair_wait(&pair, &to, i, gen[i]), BYTES);
	assert_memory_equal(pair.node[0].mem + PAIR_RX, pair.node[1].mem,
			    4 * BYTES);
	lane->failover = false;
}

#define t(f) cmocka_unit_test_setup_teardown(f, setup, pair_teardown)

const struct CMUnitTest test_list[] = {
	t(the_first_device_memory_is_registered_though_a_device_is_gone),
	t(a_flush_after_a_fence_reads_through_the_rail_that_failed),
	t(what_a_rail_lost_goes_by_the_other),
	t(a_peer_tells_of_no_more_connections_than_there_were),
	t(a_last_write_does_not_go_by_the_rail_that_is_lost),
	t(an_ack_does_not_only_go_with_cts_that_are_posted_again),
	t(who_stops_waits_for_the_fence_of_a_rail_that_failed),
	t(who_stops_does_not_wait_for_what_was_refused),
	t(a_rail_stops_though_its_queue_was_full),
	t(a_lane_stops_though_its_queue_was_full),
	{ 0 },
};
