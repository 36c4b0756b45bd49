/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection is closed while a delivery word is outstanding: the peer's
 * devices have acknowledged a send that the peer's shard has not seen. Whoever
 * closes first, each request ends once, nobody waits for the other, and no hold
 * on memory is left.
 */
#include <errno.h>

#include "engine/conn/clear.h"
#include "engine_pair.h"
#include "test.h"
#include "verbs/soft/ctx.h"

#define LEN 100000u
#define MANY 100000

static struct pair pair;
static struct pair_end tx, rx;
static uint32_t sent, received;

static void sender_until(const bool *flag)
{
	for (unsigned i = 0; i < MANY && !*flag; i++)
		pair_turn_sender(&pair);
	assert_true(*flag);
}

static bool is_acknowledged(struct engine_conn *f)
{
	return f->tx.op_tail != f->tx.op_head &&
	       send_op_at(f, f->tx.op_tail)->c.pending == 0;
}

static bool has_ended(struct pair_end *e, uint32_t gen, int32_t *result)
{
	return mpib_completion_poll(pair_completion(e, 0), gen, result);
}

/* A send, whose clear-to-send is there before it. */
static void post_both(enum mpib_completion_at mode)
{
	struct mpib_engine_config cfg;
	struct mpib_cts cts;

	mpib_engine_config_init(&cfg);
	cfg.completion = mode;
	pair_open(&pair, &cfg, MPIB_IMM_V2);
	pair_connect(&pair, 5, 0, &tx, &rx);
	pair_fill(pair.node[0].mem, LEN, 3);
	received = pair_post(&rx, MPIB_OP_RECV, 0, pair.node[1].mr, PAIR_RX,
			     LEN, 7);
	for (unsigned i = 0; i < MANY && !mpib_sender_cts(tx.conn, 0, &cts);
	     i++)
		pair_turn(&pair);
	sent = pair_post(&tx, MPIB_OP_SEND, 0, pair.node[0].mr, 0, LEN, 7);
}

static int setup(void **state)
{
	int32_t result;

	post_both(MPIB_COMPLETION_DELIVERED);
	for (unsigned i = 0; i < MANY && !is_acknowledged(tx.conn); i++)
		pair_turn_sender(&pair);
	assert_true(is_acknowledged(tx.conn));
	assert_false(has_ended(&tx, sent, &result));
	assert_false(has_ended(&rx, received, &result));
	return 0;
}

static void delay_peer(uint32_t turns)
{
	const struct mpib_soft_fault fault = { .delay_turns = turns };

	for (unsigned r = 0; r < pair.cfg.rails; r++)
		mpib_soft_set_fault(pair.node[1].engine->shard[0].rail[r].ctx,
				    &fault);
}

static void arrived_whole(void)
{
	assert_int_equal(pair_wait(&pair, &rx, 0, received), LEN);
	assert_memory_equal(pair.node[0].mem, pair.node[1].mem + PAIR_RX, LEN);
}

/* The receive has ended, and acknowledgements are on their way. */
static int setup_wire(void **state)
{
	int32_t result;

	post_both(MPIB_COMPLETION_WIRE);
	delay_peer(MANY);
	for (unsigned i = 0; i < MANY && !has_ended(&rx, received, &result);
	     i++)
		pair_turn(&pair);
	arrived_whole();
	assert_false(has_ended(&tx, sent, &result));
	return 0;
}

/* Both connections are stopped by now. */
static int teardown(void **state)
{
	struct pair_end *e[] = { &tx, &rx };

	for (unsigned i = 0; i < 2; i++) {
		bool destroyed = false, forgotten = false;

		engine_conn_destroy(e[i]->conn, pair_set_flag, &destroyed);
		pair_until(&pair, &destroyed);
		/* Ends when nothing holds it. */
		assert_int_equal(mpib_mr_del(pair.node[i].engine_client,
					     pair.node[i].mr, pair_set_flag,
					     &forgotten),
				 0);
		pair_until(&pair, &forgotten);
		assert_int_equal(pair.node[i].broken, 0);
	}
	pair_close(&pair);
	return 0;
}

static void a_sender_that_closes_waits_for_no_word(void **state)
{
	bool stopped = false, peer_stopped = false;
	int32_t result;

	engine_conn_stop(tx.conn, -ECANCELED, pair_set_flag, &stopped);
	sender_until(&stopped);
	assert_true(has_ended(&tx, sent, &result));
	assert_int_equal(result, -ECANCELED);
	arrived_whole();
	engine_conn_stop(rx.conn, -ECANCELED, pair_set_flag, &peer_stopped);
	pair_until(&pair, &peer_stopped);
}

static void a_receiver_that_closes_tells_what_had_arrived(void **state)
{
	bool stopped = false, peer_stopped = false;

	engine_conn_stop(rx.conn, -ECANCELED, pair_set_flag, &peer_stopped);
	pair_until(&pair, &peer_stopped);
	arrived_whole();
	assert_int_equal(pair_wait(&pair, &tx, 0, sent), LEN);
	engine_conn_stop(tx.conn, -ECANCELED, pair_set_flag, &stopped);
	pair_until(&pair, &stopped);
}

/* The device says so only after the peer has closed. */
static void a_send_that_was_delivered_waits_for_no_completion(void **state)
{
	bool stopped = false, peer_stopped = false;
	int32_t result = 0;

	send_op_at(tx.conn, tx.conn->tx.op_tail)->c.pending = 1;
	engine_conn_stop(rx.conn, -ECANCELED, pair_set_flag, &peer_stopped);
	pair_until(&pair, &peer_stopped);
	engine_conn_stop(tx.conn, -ECONNRESET, pair_set_flag, &stopped);
	for (unsigned i = 0; i < MANY && !has_ended(&tx, sent, &result); i++)
		pair_turn_sender(&pair);
	assert_int_equal(result, LEN);
	assert_false(stopped);
	send_op_at(tx.conn, tx.conn->tx.op_tail)->c.pending = 0;
	mpib_sender_retire(tx.conn);
	engine_conn_check_stopped(tx.conn);
	pair_until(&pair, &stopped);
	arrived_whole();
}

static void a_send_on_its_way_ends_as_its_rail_says(void **state)
{
	bool stopped = false, peer_stopped = false;
	int32_t result;

	engine_conn_stop(tx.conn, -ECONNRESET, pair_set_flag, &stopped);
	pair_turn_sender(&pair);
	assert_false(has_ended(&tx, sent, &result));
	delay_peer(0);
	pair_until(&pair, &stopped);
	assert_int_equal(pair_wait(&pair, &tx, 0, sent), LEN);
	engine_conn_stop(rx.conn, -ECANCELED, pair_set_flag, &peer_stopped);
	pair_until(&pair, &peer_stopped);
}

static void both_at_once_end_with_one_result_each(void **state)
{
	bool stopped = false, peer_stopped = false;
	int32_t result;

	engine_conn_stop(tx.conn, -ECANCELED, pair_set_flag, &stopped);
	engine_conn_stop(rx.conn, -ECANCELED, pair_set_flag, &peer_stopped);
	pair_until(&pair, &stopped);
	pair_until(&pair, &peer_stopped);
	arrived_whole();
	/* Node 0 turns first, and had no word by then. */
	assert_true(has_ended(&tx, sent, &result));
	assert_int_equal(result, -ECANCELED);
}

static void is_empty(const struct engine_conn *f)
{
	static const char zero[MPIB_SLOTS * 64];

	assert_in_range(f->tables.in_bytes, 1, sizeof(zero));
	assert_in_range(f->tables.out_bytes, 1, sizeof(zero));
	assert_memory_equal(f->tables.in, zero, f->tables.in_bytes);
	assert_memory_equal(f->tables.out, zero, f->tables.out_bytes);
}

/* Else a clear-to-send of the connection before would be taken for one of
 * this. */
static void the_next_connection_has_empty_tables(void **state)
{
	struct pair_end *e[] = { &tx, &rx };
	const void *used[2];

	both_at_once_end_with_one_result_each(state);
	for (unsigned i = 0; i < 2; i++) {
		bool destroyed = false;

		used[i] = e[i]->conn->tables.in;
		engine_conn_destroy(e[i]->conn, pair_set_flag, &destroyed);
		pair_until(&pair, &destroyed);
	}
	pair_connect(&pair, 6, 0, &tx, &rx);
	for (unsigned i = 0; i < 2; i++) {
		bool stopped = false;

		assert_ptr_equal(e[i]->conn->tables.in, used[i]);
		is_empty(e[i]->conn);
		engine_conn_stop(e[i]->conn, -ECANCELED, pair_set_flag,
				 &stopped);
		pair_until(&pair, &stopped);
	}
}

const struct CMUnitTest test_list[] = {
	fixture_test(a_sender_that_closes_waits_for_no_word),
	fixture_test(a_receiver_that_closes_tells_what_had_arrived),
	fixture_test(both_at_once_end_with_one_result_each),
	fixture_test(the_next_connection_has_empty_tables),
	fixture_test(a_send_that_was_delivered_waits_for_no_completion),
	cmocka_unit_test_setup_teardown(a_send_on_its_way_ends_as_its_rail_says,
					setup_wire, teardown),
	{ 0 },
};
