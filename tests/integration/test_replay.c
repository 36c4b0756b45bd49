/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In these tests, a message has two send ops, and the rail of both fails. Both
 * send ops are replayed, and the failed rail is usable again between the two
 * replays. The second replay carries the IMM for both send ops. WRs on
 * different rails may overtake each other. So the second replay must use the
 * same rail as the first replay, which may still be in flight.
 */
#include <errno.h>

#include "engine/conn/conn.h"
#include "engine/recovery/stop.h"
#include "engine_pair.h"
#include "placement.h"
#include "test.h"
#include "verbs/soft/soft.h"

#define HALF (64u << 10)

static struct pair pair;
static struct pair_end tx, rx;

static struct ibv_context *rail_ctx(unsigned node, unsigned rail)
{
	return pair.node[node].engine->shard[0].rail[rail].ctx;
}

static void set_fault(unsigned node, unsigned rail,
		      const struct mpib_soft_fault *fault)
{
	assert_int_equal(mpib_soft_set_fault(rail_ctx(node, rail), fault), 0);
}

static void push_half(struct pair_end *e, enum mpib_op op, uint32_t pos)
{
	struct mpib_desc d = { .op = (uint8_t)op,
			       .n = 1,
			       .gen = 1,
			       .total = 2 * HALF,
			       .pos = pos,
			       .len = HALF,
			       .off = pos };

	d.mr = pair.node[e == &rx].mr;
	if (e == &rx) {
		d.off = PAIR_RX;
		d.pos = 0;
		d.len = d.total;
	}
	pair_push(e, &d);
}

static void open_pair(enum mpib_completion_at completion)
{
	struct mpib_engine_config cfg;

	placement_end();
	mpib_engine_config_init(&cfg);
	cfg.sup_bw = 0;
	cfg.hold_ms = 1;
	cfg.completion = completion;
	pair_open(&pair, &cfg, MPIB_IMM_V2);
	pair_fences(&pair);
	pair_connect(&pair, 5, 0, &tx, &rx);
	pair_fill(pair.node[0].mem, 2 * HALF, 1);
	push_half(&rx, MPIB_OP_RECV, 0);
	pair_turns(&pair, 1000);
}

/* Post both halves to SOUT, which loses all bytes. */
static void post_to_a_black_hole(void)
{
	const struct mpib_soft_fault hole = { .black_hole = 1 };

	open_pair(MPIB_COMPLETION_DELIVERED);
	set_fault(0, MPIB_RAIL_SOUT, &hole);
	push_half(&tx, MPIB_OP_SEND, 0);
	push_half(&tx, MPIB_OP_SEND, HALF);
	while (tx.conn->tx.op_head - tx.conn->tx.op_tail < 2)
		pair_turn(&pair);
}

static bool is_open(unsigned rail)
{
	return pair.node[0].lane->open >> rail & 1 &&
	       pair.node[1].lane->open >> rail & 1;
}

/* Let SOUT fail, and make it usable again after the first half was posted to
 * SUP. A rate limit of the client delays the second half. */
static void replay_the_first_half(void)
{
	const struct mpib_lane_rail *sout =
		&pair.node[0].lane->rail[MPIB_RAIL_SOUT];
	const struct mpib_soft_fault none = { 0 };

	engine_client_qos(pair.node[0].engine_client, 0, 1);
	assert_true(mpib_lane_fault(pair.node[0].lane, MPIB_RAIL_SOUT,
				    MPIB_CAUSE_ERROR));
	while (sout->state == MPIB_RAIL_LIVE ||
	       sout->state == MPIB_RAIL_STOPPING)
		pair_turn(&pair);
	set_fault(0, MPIB_RAIL_SOUT, &none);
	while (tx.conn->tx.lost != 1 || !is_open(MPIB_RAIL_SOUT))
		pair_turn(&pair);
	assert_int_equal(engine_conn_home(tx.conn), MPIB_RAIL_SOUT);
}

static void arrives_whole(void)
{
	assert_int_equal(pair_wait(&pair, &rx, 0, 1), 2 * HALF);
	assert_memory_equal(pair.node[1].mem + PAIR_RX, pair.node[0].mem,
			    2 * HALF);
	assert_int_equal(pair_wait(&pair, &tx, 0, 1), 2 * HALF);
}

pair_test(an_imm_waits_for_a_replay_on_the_other_rail)
{
	const struct mpib_soft_fault hole = { .black_hole = 1 };

	post_to_a_black_hole();
	set_fault(0, MPIB_RAIL_SUP, &hole);
	replay_the_first_half();
	engine_client_qos(pair.node[0].engine_client, 0, 0);
	pair_turns(&pair, 1000);
	assert_true(mpib_lane_fault(pair.node[0].lane, MPIB_RAIL_SUP,
				    MPIB_CAUSE_ERROR));
	arrives_whole();
}

pair_test(a_replay_is_repeated_if_only_the_device_acknowledged_it)
{
	const struct send_op *first;

	post_to_a_black_hole();
	placement_set(rail_ctx(1, MPIB_RAIL_SUP), FORGOTTEN);
	first = send_op_at(tx.conn, tx.conn->tx.op_tail);
	replay_the_first_half();
	while (first->c.pending)
		pair_turn(&pair);
	engine_client_qos(pair.node[0].engine_client, 0, 0);
	arrives_whole();
}

/* Send the first half, and make turns until its send op is released. After
 * that, the client may reuse the memory. If `forgets` is set, the receiving
 * device acknowledges the first half but does not write it to memory. */
static void release_the_first_half(enum mpib_completion_at completion,
				   bool forgets)
{
	open_pair(completion);
	if (forgets)
		placement_set(rail_ctx(1, MPIB_RAIL_SOUT), FORGOTTEN);
	push_half(&tx, MPIB_OP_SEND, 0);
	while (tx.conn->tx.op_head == tx.conn->tx.op_tail)
		pair_turn(&pair);
	while (tx.conn->tx.op_head != tx.conn->tx.op_tail)
		pair_turn(&pair);
}

static void breaks_when_the_device_is_gone(void)
{
	const struct mpib_soft_fault gone = { .gone = 1 };
	int32_t result;

	set_fault(1, MPIB_RAIL_SOUT, &gone);
	assert_int_equal(pair_wait(&pair, &tx, 0, 1), -EIO);
	pair_turns(&pair, 100);
	assert_non_null(strstr(pair.node[0].why, "died with data"));
	assert_false(mpib_completion_poll(pair_completion(&rx, 0), 1, &result));
	pair_close(&pair);
}

pair_test(the_lane_breaks_if_a_lost_device_had_acknowledged_released_bytes)
{
	release_the_first_half(MPIB_COMPLETION_DELIVERED, true);
	breaks_when_the_device_is_gone();
	release_the_first_half(MPIB_COMPLETION_WIRE, true);
	breaks_when_the_device_is_gone();
}

static void imm_in_flight(enum mpib_completion_at completion)
{
	const struct mpib_soft_fault hole = { .black_hole = 1 };

	release_the_first_half(completion, true);
	set_fault(0, MPIB_RAIL_SOUT, &hole);
	push_half(&tx, MPIB_OP_SEND, HALF);
	while (tx.conn->tx.op_head == tx.conn->tx.op_tail)
		pair_turn(&pair);
	breaks_when_the_device_is_gone();
}

pair_test(the_lane_breaks_even_if_the_imm_of_released_bytes_is_in_flight)
{
	imm_in_flight(MPIB_COMPLETION_DELIVERED);
	imm_in_flight(MPIB_COMPLETION_WIRE);
}

/* The rank can resume the connection: after the lane breaks, the rank would
 * post the whole message again. */
pair_test(the_lane_breaks_even_if_the_rank_could_resume)
{
	const struct mpib_soft_fault gone = { .gone = 1 };

	release_the_first_half(MPIB_COMPLETION_DELIVERED, true);
	pair.node[0].engine->cfg.resume = true;
	set_fault(1, MPIB_RAIL_SOUT, &gone);
	while (!pair.node[0].lanes_broken)
		pair_turn(&pair);
	assert_int_equal(tx.conn->error, MPIB_BROKEN_LOST);
	assert_non_null(strstr(pair.node[0].why, "died with data"));
}

/* If only the port of the receiving device has failed, acknowledged bytes are
 * not lost. */
pair_test(released_bytes_survive_a_port_that_is_down)
{
	const struct mpib_soft_fault none = { 0 }, down = { .link_down = 1 };

	release_the_first_half(MPIB_COMPLETION_DELIVERED, false);
	set_fault(1, MPIB_RAIL_SOUT, &down);
	while (is_open(MPIB_RAIL_SOUT))
		pair_turn(&pair);
	push_half(&tx, MPIB_OP_SEND, HALF);
	arrives_whole();
	set_fault(1, MPIB_RAIL_SOUT, &none);
}
