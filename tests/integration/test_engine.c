/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test the engine between two nodes on software rails, turn by turn. The tests
 * check which bytes arrive, where, and over which rail. Memory outside the
 * receive buffers must not change.
 */
#include <errno.h>

#include "engine_pair.h"
#include "test.h"
#include "verbs/soft/soft.h"

#define MIB (1u << 20)

static struct pair pair;
static struct pair_end tx, rx;

static void open_with(uint32_t sup_bw, uint8_t imm_version)
{
	pair_open_at(&pair, sup_bw, imm_version, &tx, &rx);
}

pair_test(messages_of_all_sizes_arrive_whole)
{
	static const uint32_t size[] = { 0,    1,     127,   128, 129,
					 4095, 65536, 65537, MIB, 5 * MIB + 3 };
	for (uint8_t v = MPIB_IMM_V1; v <= MPIB_IMM_V2; v++) {
		open_with(512, v);
		for (unsigned i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
			pair_transfer(&pair, &tx, &rx, (uint8_t)(i % 32),
				      size[i], size[i], i);
			pair_transfer(&pair, &tx, &rx, (uint8_t)(i % 32),
				      size[i], size[i] + 100, i);
		}
		pair_close(&pair);
	}
}

pair_test(shares_are_exact_and_an_unused_rail_gets_no_wr)
{
	static const struct {
		uint32_t sup_bw, sup, sout;
	} row[] = {
		{ 0, 0, MIB },		 { 256, 262144, 786432 },
		{ 512, 524288, 524288 }, { 768, 786432, 262144 },
		{ 1024, MIB, 0 },
	};
	/* With these settings a message may need more than one WR.
	 * test_spread.c and test_limits.c test such messages. */
	if (getenv("MPIB_TEST_SPREAD") || getenv("MPIB_SOFT_LIMITS"))
		skip();
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct mpib_snapshot *a, *b;

		open_with(row[i].sup_bw, MPIB_IMM_V2);
		pair_transfer(&pair, &tx, &rx, 0, MIB, MIB, i);
		a = pair_snapshot(&pair, 0);
		b = pair_snapshot(&pair, 1);
		assert_int_equal(a->rail[0].n.tx_bytes, row[i].sout);
		assert_int_equal(a->rail[1].n.tx_bytes, row[i].sup);
		assert_int_equal(b->rail[0].n.rx_bytes, row[i].sout);
		assert_int_equal(b->rail[1].n.rx_bytes, row[i].sup);
		assert_int_equal(a->rail[0].n.tx_wrs, row[i].sout > 0);
		assert_int_equal(a->rail[1].n.tx_wrs, row[i].sup > 0);
		assert_int_equal(b->rail[0].n.rx_imms, row[i].sout > 0);
		assert_int_equal(b->rail[1].n.rx_imms, row[i].sup > 0);
		/* The receiver sends its CTS and its end-to-end ack only over
		 * its home rail. */
		assert_int_equal(b->rail[0].n.tx_wrs,
				 row[i].sup_bw < 1024 ? 2 : 0);
		assert_int_equal(b->rail[1].n.tx_wrs,
				 row[i].sup_bw == 1024 ? 2 : 0);
		mpib_snapshot_free(a);
		mpib_snapshot_free(b);
		pair_close(&pair);
	}
}

pair_test(a_too_large_send_fails_at_both_ends)
{
	char *to;
	uint32_t g_rx, g_tx;

	for (uint8_t v = MPIB_IMM_V1; v <= MPIB_IMM_V2; v++) {
		open_with(512, v);
		to = pair.node[1].mem + PAIR_RX;
		memset(to, 0x55, MIB);
		g_rx = pair_post(&rx, MPIB_OP_RECV, 3, pair.node[1].mr, PAIR_RX,
				 1000, 0);
		g_tx = pair_post(&tx, MPIB_OP_SEND, 4, pair.node[0].mr, 0, 5000,
				 0);
		assert_int_equal(pair_wait(&pair, &tx, 4, g_tx), -EMSGSIZE);
		assert_int_equal(pair_wait(&pair, &rx, 3, g_rx), -EMSGSIZE);
		assert_int_equal(pair_completion(&tx, 4)->size[0], 5000);
		assert_int_equal(pair_completion(&tx, 4)->size[1], 1000);
		assert_int_equal(pair_completion(&rx, 3)->size[0], 5000);
		assert_int_equal(pair_completion(&rx, 3)->size[1], 1000);
		for (unsigned i = 0; i < MIB; i++)
			assert_int_equal(to[i], 0x55);
		pair_transfer(&pair, &tx, &rx, 5, 3000, 3000,
			      1); /* the connection continues */
		pair_close(&pair);
	}
}

/* Let each rail delay messages by a random number of turns. So the two halves
 * of a message may arrive in any order, and messages on different QPs may
 * overtake each other. */
static void hold_back(unsigned turns)
{
	for (unsigned n = 0; n < 2; n++) {
		for (unsigned r = 0; r < 2; r++) {
			struct mpib_soft_fault fault = {
				.seed = 1 + 2 * n + r,
				.delay_turns = turns,
			};
			struct mpib_shard *s = &pair.node[n].engine->shard[0];

			/* Skip rails on real HCAs: there the network determines
			 * the order. */
			if (s->rail[r].verbs != &mpib_verbs_soft)
				continue;
			assert_int_equal(
				mpib_soft_set_fault(s->rail[r].ctx, &fault), 0);
		}
	}
}

pair_test(slots_wrap_many_times_with_sends_out_of_order)
{
	uint32_t g_rx[8], g_tx[8], len[8], posted = 0, done = 0;
	/* hold_back() cannot delay messages on the rails that MPIB_TEST_RAILS
	 * names, so fewer rounds are enough. */
	uint32_t all = getenv("MPIB_TEST_RAILS") ? 2000 : 10000;
	unsigned rnd = 1;

	open_with(512, MPIB_IMM_V2);
	hold_back(7);
	while (done < all) {
		while (posted < all && posted - done < 8) {
			uint8_t i = (uint8_t)(posted % 8);

			rnd = rnd * 1103515245 + 12345;
			len[i] = (rnd >> 8) % 3000;
			pair_fill(pair.node[0].mem + i * 4096u, len[i], posted);
			g_rx[i] =
				pair_post(&rx, MPIB_OP_RECV, i, pair.node[1].mr,
					  PAIR_RX + i * 4096u, 4096, 0);
			g_tx[i] =
				pair_post(&tx, MPIB_OP_SEND, i, pair.node[0].mr,
					  i * 4096u, len[i], 0);
			posted++;
		}
		for (; done < posted; done++) {
			uint8_t i = (uint8_t)(done % 8);

			assert_int_equal(pair_wait(&pair, &rx, i, g_rx[i]),
					 len[i]);
			assert_int_equal(pair_wait(&pair, &tx, i, g_tx[i]),
					 len[i]);
			assert_memory_equal(
				pair.node[0].mem + i * 4096u,
				pair.node[1].mem + PAIR_RX + i * 4096u, len[i]);
		}
	}
	assert_int_equal(pair.node[0].broken + pair.node[1].broken, 0);
}

pair_test(a_descriptor_outside_its_region_breaks_only_its_connection)
{
	struct pair_end tx2, rx2;

	open_with(512, MPIB_IMM_V2);
	pair_connect(&pair, 6, 0, &tx2, &rx2);
	pair_post(&tx, MPIB_OP_SEND, 0, pair.node[0].mr, PAIR_MEM - 10, 11, 0);
	pair_turns(&pair, 10);
	assert_int_equal(pair.node[0].broken, 1);
	assert_int_not_equal(atomic_load(&tx.reply->conn[tx.index].broken), 0);
	tx = tx2;
	rx = rx2;
	pair_transfer(&pair, &tx, &rx, 1, 5000, 5000, 3);
}

pair_test(deregistering_waits_for_users_of_the_region)
{
	bool gone = false, stopped = false, destroyed = false;
	uint32_t g;

	open_with(512, MPIB_IMM_V2);
	g = pair_post(&rx, MPIB_OP_RECV, 0, pair.node[1].mr, PAIR_RX, 4096, 0);
	pair_turns(&pair, 20);
	assert_int_equal(mpib_mr_del(pair.node[1].engine_client,
				     pair.node[1].mr, pair_set_flag, &gone),
			 0);
	assert_int_equal(pair_wait(&pair, &rx, 0, g), -ECANCELED);
	pair_turns(&pair, 20);
	/* The region still exists, because the peer may still write to it. */
	assert_false(gone);
	engine_conn_stop(rx.conn, -ECANCELED, pair_set_flag, &stopped);
	pair_until(&pair, &stopped);
	engine_conn_destroy(rx.conn, pair_set_flag, &destroyed);
	pair_until(&pair, &destroyed);
	pair_until(&pair, &gone);
}

/* Fill the receiver's table with receives of 64 bytes. */
static void fill_slots(void)
{
	struct mpib_desc d = { .op = MPIB_OP_RECV,
			       .req = 1,
			       .n = 1,
			       .gen = ++rx.gen,
			       .mr = pair.node[1].mr,
			       .len = 64,
			       .total = 64 * MPIB_TABLE_SLOTS };

	for (; d.pos < d.total; d.pos += d.len) {
		d.off = PAIR_RX + d.pos;
		pair_push(&rx, &d);
	}
	pair_turns(&pair, 20);
}

static bool is_over(const struct pair_end *e, uint8_t req, uint32_t gen)
{
	int32_t result;

	return mpib_completion_poll(pair_completion(e, req), gen, &result);
}

#define SMALL 4096

pair_test(a_new_region_is_not_confused_with_a_removed_one)
{
	static char mem[2][SMALL];
	static const char zero[SMALL];
	bool gone = false;
	uint32_t old, new, g;

	open_with(512, MPIB_IMM_V2);
	old = pair_add_memory(&pair, 1, mem[0], SMALL);
	fill_slots();
	g = pair_post(&rx, MPIB_OP_RECV, 2, old, 0, SMALL, 0);
	assert_int_equal(mpib_mr_del(pair.node[1].engine_client, old,
				     pair_set_flag, &gone),
			 0);
	pair_until(&pair, &gone);
	/* the request still waits in the ring */
	assert_int_equal(pair.node[1].broken, 0);
	new = pair_add_memory(&pair, 1, mem[1], SMALL);
	pair_fill(pair.node[0].mem, SMALL, 1);
	for (uint8_t i = 1; i < 3; i++)
		pair_post(&tx, MPIB_OP_SEND, i, pair.node[0].mr, 0, SMALL, 0);
	while (!rx.reply->conn[rx.index].broken && !is_over(&rx, 2, g))
		pair_turn(&pair);
	assert_memory_equal(mem[1], zero, SMALL);
	assert_int_equal(rx.reply->conn[rx.index].broken, -ECANCELED);
	assert_int_not_equal(new, old);
}

pair_test(killing_a_lane_ends_its_connections)
{
	bool killed = false;
	uint32_t g;

	open_with(512, MPIB_IMM_V2);
	pair_transfer(&pair, &tx, &rx, 0, 100000, 100000, 1);
	g = pair_post(&rx, MPIB_OP_RECV, 1, pair.node[1].mr, PAIR_RX, 4096, 0);
	pair_turns(&pair, 20);
	mpib_lane_kill(pair.node[1].lane, pair_set_flag, &killed);
	pair_until(&pair, &killed);
	assert_int_equal(pair_wait(&pair, &rx, 1, g), -ECONNRESET);
	assert_int_equal(pair.node[1].broken, 1);
}
