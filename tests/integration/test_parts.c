/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test the engine between two nodes, turn by turn, with messages in parts and
 * with grouped receives.
 */
#include "engine/conn/conn.h"
#include "engine_pair.h"
#include "test.h"

static struct pair pair;
static struct pair_end tx, rx;

static void open_with(uint32_t sup_bw, uint8_t imm_version)
{
	pair_open_at(&pair, sup_bw, imm_version, &tx, &rx);
}

/* Push the bytes from `from` up to `to` of request `d`, in parts of `cut`
 * bytes. */
static void push_some(struct pair_end *e, struct mpib_desc d, uint32_t cut,
		      uint32_t from, uint32_t to)
{
	uint64_t off = d.off;

	for (d.pos = from; d.pos < to; d.pos += cut) {
		d.off = off + d.pos;
		d.len = cut < d.total - d.pos ? cut : d.total - d.pos;
		pair_push(e, &d);
	}
}

/* Return the descriptor of request 9, with `total` bytes at `off`. */
static struct mpib_desc request_of(enum mpib_op op, uint32_t gen, uint32_t mr,
				   uint64_t off, uint32_t total)
{
	return (struct mpib_desc){ .op = (uint8_t)op,
				   .req = 9,
				   .n = 1,
				   .gen = gen,
				   .mr = mr,
				   .off = off,
				   .total = total };
}

static void push_parts(struct pair_end *e, enum mpib_op op, uint32_t gen,
		       uint32_t mr, uint64_t off, uint32_t total, uint32_t cut)
{
	push_some(e, request_of(op, gen, mr, off, total), cut, 0, total);
}

/* The two ends may divide a message into parts of different sizes, and the
 * message may be shorter than the receive buffer. */
pair_test(parts_of_send_and_receive_may_differ)
{
	static const uint32_t lens[] = { 10, 4096, 9999, 40960, 50000, 65536 };
	static const uint32_t cuts[] = { 4096, 10240, 65536 };

	for (unsigned v = 0; v < 2 * 6 * 9; v++) {
		uint32_t len = lens[v % 6], total = 65536;
		uint32_t cut_tx = cuts[v / 6 % 3], cut_rx = cuts[v / 18 % 3];
		char *from, *to;
		uint32_t gen;

		if (v % 54 == 0) {
			if (pair.node[0].engine)
				pair_close(&pair);
			open_with(512, (uint8_t)(1 + v / 54));
		}
		from = pair.node[0].mem;
		to = pair.node[1].mem + PAIR_RX;
		gen = ++rx.gen;
		tx.gen = gen;
		pair_fill(from, len, v);
		memset(to, 0x55, total);
		push_parts(&rx, MPIB_OP_RECV, gen, pair.node[1].mr, PAIR_RX,
			   total, cut_rx);
		push_parts(&tx, MPIB_OP_SEND, gen, pair.node[0].mr, 0, len,
			   cut_tx);
		assert_int_equal(pair_wait(&pair, &rx, 9, gen), len);
		assert_int_equal(pair_wait(&pair, &tx, 9, gen), len);
		assert_memory_equal(from, to, len);
		for (uint32_t i = len; i < total; i++)
			assert_int_equal(to[i], 0x55);
	}
}

/* All send ops of the slot wait for the same end-to-end ack. The receiver sends
 * this ack only after all of them were posted. */
pair_test(a_message_may_have_more_parts_than_a_connection_has_send_ops)
{
	const uint32_t cut = 512, half = SEND_RANGES * cut;
	struct mpib_engine_config cfg;
	struct mpib_desc d;

	mpib_engine_config_init(&cfg);
	cfg.completion = MPIB_COMPLETION_DELIVERED;
	for (uint8_t v = MPIB_IMM_V1; v <= MPIB_IMM_V2; v++) {
		pair_open(&pair, &cfg, v);
		pair_connect(&pair, 5, 0, &tx, &rx);
		rx.gen = tx.gen = 1;
		pair_fill(pair.node[0].mem, 2 * half, v);
		d = request_of(MPIB_OP_SEND, 1, pair.node[0].mr, 0, 2 * half);
		push_some(&tx, d, cut, 0, half);
		for (int i = 0; i < 64; i++)
			pair_turn(&pair);
		push_some(&tx, d, cut, half, 2 * half);
		push_parts(&rx, MPIB_OP_RECV, 1, pair.node[1].mr, PAIR_RX,
			   2 * half, 2 * half);
		assert_int_equal(pair_wait(&pair, &rx, 9, 1), 2 * half);
		assert_int_equal(pair_wait(&pair, &tx, 9, 1), 2 * half);
		assert_memory_equal(pair.node[0].mem,
				    pair.node[1].mem + PAIR_RX, 2 * half);
		pair_close(&pair);
	}
}

/* The sender posts the message in parts, some of which have no IMM. */
pair_test(a_receive_reports_the_bytes_of_each_rail)
{
	const uint32_t total = 65536;
	struct mpib_desc d;

	open_with(512, MPIB_IMM_V2);
	for (uint32_t cut = 10240; cut <= total; cut += total - 10240) {
		uint64_t before[MPIB_RAILS];

		for (unsigned r = 0; r < MPIB_RAILS; r++)
			before[r] = rx.conn->n[r].rx_bytes;
		d = request_of(MPIB_OP_RECV, ++rx.gen, pair.node[1].mr, PAIR_RX,
			       total);
		d.op |= MPIB_OP_REPORT;
		push_some(&rx, d, total, 0, total);
		push_parts(&tx, MPIB_OP_SEND, ++tx.gen, pair.node[0].mr, 0,
			   total, cut);
		assert_int_equal(pair_wait(&pair, &rx, 9, rx.gen), total);
		assert_int_equal(pair_wait(&pair, &tx, 9, tx.gen), total);
		for (unsigned r = 0; r < MPIB_RAILS; r++) {
			struct mpib_rail_report told = mpib_completion_rail(
				pair_completion(&rx, 9), r, rx.gen);

			assert_int_equal(told.state, MPIB_RAIL_DONE);
			assert_int_equal(told.bytes,
					 rx.conn->n[r].rx_bytes - before[r]);
			assert_int_not_equal(told.bytes, 0);
		}
	}
}

pair_test(a_grouped_receive_matches_sends_by_tag)
{
	static const uint32_t len[8] = { 0, 1, 128, 1000, 70000, 5, 4096, 131 };

	for (uint8_t v = MPIB_IMM_V1; v <= MPIB_IMM_V2; v++) {
		uint32_t gen, g_tx[8];

		open_with(512, v);
		for (unsigned round = 0; round < 40; round++) {
			gen = ++rx.gen;
			memset(pair.node[1].mem + PAIR_RX, 0x55, 8 * 131072);
			for (uint8_t i = 0; i < 8; i++) {
				struct mpib_desc d = {
					.op = MPIB_OP_RECV,
					.req = 2,
					.idx = i,
					.n = 8,
					.gen = gen,
					.mr = pair.node[1].mr,
					.tag = 100 + i,
					.off = PAIR_RX + i * 131072u,
					.len = 131072,
					.total = 131072,
				};
				pair_push(&rx, &d);
			}
			for (uint8_t i = 0; i < 8; i++) {
				uint8_t k = (uint8_t)((i + round) % 8);

				pair_fill(pair.node[0].mem + k * 131072u,
					  len[k], k + round);
				g_tx[i] = pair_post(
					&tx, MPIB_OP_SEND, i, pair.node[0].mr,
					k * 131072u, len[k], 100 + k);
			}
			pair_wait(&pair, &rx, 2, gen);
			for (uint8_t i = 0; i < 8; i++) {
				pair_wait(&pair, &tx, i, g_tx[i]);
				assert_int_equal(
					pair_completion(&rx, 2)->size[i],
					len[i]);
				assert_memory_equal(pair.node[0].mem +
							    i * 131072u,
						    pair.node[1].mem + PAIR_RX +
							    i * 131072u,
						    len[i]);
			}
		}
		pair_close(&pair);
	}
}
