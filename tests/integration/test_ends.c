/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A send completes only after its receive, even if the send fails with
 * -EMSGSIZE, and even if its send ops are released earlier. In each test, the
 * peer's HCAs receive all bytes before the peer's shard handles any of them.
 */
#include <errno.h>

#include "engine/conn/conn.h"
#include "engine_pair.h"
#include "test.h"

#define LEN 4096u
#define MANY 100000

static struct pair pair;
static struct pair_end tx, rx;

static void open_with(uint32_t rails, uint32_t failover)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	cfg.rails = rails;
	cfg.failover = failover;
	pair_open(&pair, &cfg, MPIB_IMM_V2);
	pair_connect(&pair, 5, 0, &tx, &rx);
	pair_fill(pair.node[0].mem, 2 * LEN, 3);
}

/* Make turns until the sender has read the CTS of the first `n` slots. */
static void until_announced(uint64_t n)
{
	for (unsigned i = 0; rx.conn->rx.cts_posted < n; i++) {
		assert_true(i < MANY);
		pair_turn(&pair);
	}
	pair_turns(&pair, 100);
}

/* Make turns until the sender has posted sends for all slots whose numbers are
 * below `cts`, and all posted WRs are acknowledged. */
static void until_acknowledged(uint64_t cts)
{
	const struct mpib_sender *s = &tx.conn->tx;
	uint8_t pending = 1;

	for (unsigned i = 0; pending || s->cts_next < cts; i++) {
		assert_true(i < MANY);
		pair_turn_sender(&pair);
		pending = 0;
		for (uint32_t k = s->op_tail; k != s->op_head; k++)
			pending |= s->op[k % SEND_OPS].c.pending;
	}
	for (unsigned i = 0; i < 100; i++)
		pair_turn_sender(&pair);
}

static bool is_over(uint8_t req, uint32_t gen)
{
	int32_t result;

	return mpib_completion_poll(pair_completion(&tx, req), gen, &result);
}

static void send_and_receive(uint32_t rails, uint32_t failover)
{
	uint32_t g_rx, g_tx;

	open_with(rails, failover);
	g_rx = pair_post(&rx, MPIB_OP_RECV, 1, pair.node[1].mr, PAIR_RX, LEN,
			 7);
	until_announced(1);
	g_tx = pair_post(&tx, MPIB_OP_SEND, 1, pair.node[0].mr, 0, LEN, 7);
	until_acknowledged(1);
	assert_false(is_over(1, g_tx));
	assert_int_equal(pair_wait(&pair, &rx, 1, g_rx), LEN);
	assert_int_equal(pair_wait(&pair, &tx, 1, g_tx), LEN);
	pair_close(&pair);
}

pair_test(a_send_completes_after_its_receive)
{
	send_and_receive(2, 1);
	send_and_receive(2, 0);
	send_and_receive(1, 1);
	send_and_receive(1, 0);
}

static uint32_t progress_of(uint8_t req, uint32_t gen)
{
	return mpib_completion_progress(pair_completion(&tx, req), gen);
}

/* Check that the reply segment records which receive this send answers. */
static void check_answer(uint8_t req, uint32_t gen, bool refused,
			 uint32_t receive)
{
	assert_int_equal(pair.node[0].reply->answers[tx.index][req],
			 mpib_answer(gen, refused, PAIR_FIRST + receive));
}

static void check_sizes(uint8_t req)
{
	const struct mpib_completion *c = pair_completion(&tx, req);

	assert_int_equal(c->size[0], 2 * LEN);
	assert_int_equal(c->size[1], LEN);
}

pair_test(the_receive_of_a_send_is_recorded_before_completion)
{
	uint32_t gen;

	open_with(2, 1);
	for (uint8_t i = 0; i < 3; i++) {
		pair_post(&rx, MPIB_OP_RECV, i, pair.node[1].mr, PAIR_RX, LEN,
			  7);
		until_announced(i + 1);
		gen = pair_post(&tx, MPIB_OP_SEND, i, pair.node[0].mr, 0, LEN,
				7);
		until_acknowledged(i + 1);
		check_answer(i, gen, false, i);
		assert_false(is_over(i, gen));
	}
}

/* The client posts the second half of the send before it learns that the send
 * is too large. */
pair_test(a_too_large_send_completes_after_its_receive)
{
	struct mpib_desc d = { .op = MPIB_OP_SEND,
			       .req = 1,
			       .n = 1,
			       .gen = 1,
			       .tag = 7,
			       .len = LEN,
			       .total = 2 * LEN };
	uint32_t g_rx;

	open_with(2, 1);
	g_rx = pair_post(&rx, MPIB_OP_RECV, 1, pair.node[1].mr, PAIR_RX, LEN,
			 7);
	until_announced(1);
	d.mr = pair.node[0].mr;
	d.gen = ++tx.gen;
	pair_push(&tx, &d);
	until_acknowledged(1);
	assert_false(is_over(1, d.gen));
	check_answer(1, d.gen, true, 0);
	check_sizes(1);
	assert_int_equal(progress_of(1, d.gen), LEN);
	d.pos = d.off = LEN;
	pair_push(&tx, &d);
	for (unsigned i = 0; i < 100; i++)
		pair_turn_sender(&pair);
	assert_false(is_over(1, d.gen));
	assert_int_equal(progress_of(1, d.gen), 2 * LEN);
	assert_false(mpib_sender_has_work(tx.conn));
	assert_int_equal(pair_wait(&pair, &rx, 1, g_rx), -EMSGSIZE);
	assert_int_equal(pair_wait(&pair, &tx, 1, d.gen), -EMSGSIZE);
	check_sizes(1);
	pair_transfer(&pair, &tx, &rx, 1, 3000, LEN, 1);
	assert_int_equal(pair.node[0].broken + pair.node[1].broken, 0);
}

/* After the last byte of a staged send was sent, its part of the staging window
 * is free for other sends, although the send has not completed. */
pair_test(a_send_to_a_group_completes_after_the_group)
{
	struct mpib_desc d = { .op = MPIB_OP_SEND,
			       .req = 1,
			       .n = 1,
			       .tag = 101,
			       .len = LEN / 2,
			       .total = LEN };
	uint32_t g_rx, g_tx;

	open_with(2, 1);
	g_rx = pair_post_group(&rx, 2, 2, pair.node[1].mr, PAIR_RX, LEN, 100);
	until_announced(2);
	d.mr = pair.node[0].mr;
	d.gen = ++tx.gen;
	pair_push(&tx, &d);
	d.pos = d.off = LEN / 2;
	pair_push(&tx, &d);
	until_acknowledged(0);
	assert_int_equal(progress_of(1, d.gen), LEN);
	assert_false(is_over(1, d.gen));
	g_tx = pair_post(&tx, MPIB_OP_SEND, 3, pair.node[0].mr, LEN, LEN, 100);
	until_acknowledged(2);
	assert_false(is_over(1, d.gen));
	assert_false(is_over(3, g_tx));
	check_answer(1, d.gen, false, 0);
	check_answer(3, g_tx, false, 0);
	assert_int_equal(pair_wait(&pair, &rx, 2, g_rx), 2 * LEN);
	assert_int_equal(pair_wait(&pair, &tx, 1, d.gen), LEN);
	assert_int_equal(pair_wait(&pair, &tx, 3, g_tx), LEN);
	assert_memory_equal(pair.node[0].mem, pair.node[1].mem + PAIR_RX + LEN,
			    LEN);
	assert_memory_equal(pair.node[0].mem + LEN, pair.node[1].mem + PAIR_RX,
			    LEN);
}

/* The client may need that part of the staging window for the other sends of
 * the group. */
pair_test(a_refused_send_of_a_group_releases_its_part_of_the_window)
{
	struct mpib_desc d = { .op = MPIB_OP_SEND,
			       .req = 1,
			       .n = 1,
			       .tag = 101,
			       .len = LEN,
			       .total = 2 * LEN };
	uint32_t g_rx, g_tx;

	open_with(2, 1);
	g_rx = pair_post_group(&rx, 2, 2, pair.node[1].mr, PAIR_RX, LEN, 100);
	until_announced(2);
	d.mr = pair.node[0].mr;
	d.gen = ++tx.gen;
	pair_push(&tx, &d);
	until_acknowledged(0);
	assert_int_equal(progress_of(1, d.gen), LEN);
	d.pos = d.off = LEN;
	pair_push(&tx, &d);
	until_acknowledged(0);
	assert_int_equal(progress_of(1, d.gen), 2 * LEN);
	assert_false(is_over(1, d.gen));
	g_tx = pair_post(&tx, MPIB_OP_SEND, 3, pair.node[0].mr, LEN, LEN, 100);
	until_acknowledged(2);
	assert_false(is_over(1, d.gen));
	check_answer(1, d.gen, true, 0);
	check_answer(3, g_tx, false, 0);
	check_sizes(1);
	assert_int_equal(pair_wait(&pair, &rx, 2, g_rx), -EMSGSIZE);
	assert_int_equal(pair_wait(&pair, &tx, 1, d.gen), -EMSGSIZE);
	assert_int_equal(pair_wait(&pair, &tx, 3, g_tx), LEN);
	check_sizes(1);
}
