/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of lanes that spread stripes over several QPs of a rail. The tests
 * check which QP carries which fragment, and how both ends handle fragments.
 * test_engine, which runs once per mode, tests that all messages arrive.
 */
#include <errno.h>

#include "engine/conn/conn.h"
#include "engine/lane/spread.h"
#include "engine_pair.h"
#include "test.h"

#define KIB 1024u
#define RX (PAIR_MEM / 2)

static struct pair pair;
static struct pair_end tx, rx;

static void open_lane_of(enum mpib_spread spread, unsigned qps, uint32_t depth)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	cfg.sup_bw = 0; /* SOUT carries all bytes */
	cfg.qps[MPIB_RAIL_SOUT] = qps;
	cfg.sq_depth = depth;
	cfg.spread = spread;
	cfg.frag = 4 * KIB;
	pair_open(&pair, &cfg, MPIB_IMM_V2);
	pair_connect(&pair, 0, 0, &tx, &rx);
}

static void open_lane(enum mpib_spread spread, unsigned qps)
{
	open_lane_of(spread, qps, 512);
}

static void transfer(uint32_t len)
{
	char *from = pair.node[0].mem + 4097, *to = pair.node[1].mem + RX + 3;
	uint32_t g_rx, g_tx;

	for (uint32_t i = 0; i < len; i++)
		from[i] = (char)(len + i * 31 + (i >> 8));
	memset(to, 0x55, len + 1);
	g_rx = pair_post(&rx, MPIB_OP_RECV, 1, pair.node[1].mr, RX + 3, len, 0);
	g_tx = pair_post(&tx, MPIB_OP_SEND, 1, pair.node[0].mr, 4097, len, 0);
	assert_int_equal(pair_wait(&pair, &rx, 1, g_rx), len);
	assert_int_equal(pair_wait(&pair, &tx, 1, g_tx), len);
	assert_memory_equal(from, to, len);
	assert_int_equal(to[len], 0x55);
}

static uint64_t wrs(void)
{
	struct mpib_snapshot *s = pair_snapshot(&pair, 0);
	uint64_t n = s->rail[MPIB_RAIL_SOUT].n.tx_wrs;

	assert_int_equal(s->lane[0].n[MPIB_RAIL_SOUT].tx_wrs, n);
	assert_int_equal(s->conn[0].n[MPIB_RAIL_SOUT].tx_wrs, n);
	mpib_snapshot_free(s);
	return n;
}

static struct mpib_lane_qp *qp(unsigned node, unsigned i)
{
	return &pair.node[node].lane->qp[MPIB_RAIL_SOUT][i];
}

pair_test(a_sprayed_message_uses_all_qps_and_one_imm)
{
	uint32_t sum = 0;

	open_lane(MPIB_SPREAD_SPRAY, 4);
	transfer(64 * KIB);
	assert_int_equal(wrs(), 16 + 1);
	for (unsigned i = 0; i < 4; i++) {
		assert_in_range(qp(0, i)->posted, 4, 5);
		sum += qp(0, i)->posted;
	}
	assert_int_equal(sum, 17);
	transfer(64 * KIB + 1);
	assert_int_equal(wrs(), 17 + 18);
}

pair_test(numbered_fragments_leave_the_first_qp_to_imms)
{
	open_lane(MPIB_SPREAD_DQPLB, 5);
	transfer(64 * KIB);
	assert_int_equal(wrs(), 16 + 1);
	assert_int_equal(qp(0, 0)->posted, 1);
	for (unsigned i = 1; i < 5; i++)
		assert_int_equal(qp(0, i)->posted, 4);
}

/* Most WRs for fragments are in use, as if by lanes to peers that have
 * stopped. */
pair_test(a_lane_leaves_wrs_for_the_fragments_of_other_lanes)
{
	struct mpib_wr_pool *frags;
	struct mpib_wr *used = NULL, *w;
	uint32_t len = 1024 * KIB, least = 64, g_rx, g_tx;

	open_lane(MPIB_SPREAD_SPRAY, 4);
	frags = &pair.node[0].engine->shard[0].frags;
	while (frags->left > least) {
		w = mpib_wr_take(frags);
		STAILQ_NEXT(w, link) = used;
		used = w;
	}
	g_rx = pair_post(&rx, MPIB_OP_RECV, 1, pair.node[1].mr, RX, len, 0);
	pair_turns(&pair, 4);
	g_tx = pair_post(&tx, MPIB_OP_SEND, 1, pair.node[0].mr, 0, len, 0);
	for (unsigned i = 0; i < 20; i++) {
		pair_turn_sender(&pair);
		least = frags->left < least ? frags->left : least;
	}
	assert_in_range(least, 64 / 5, 64 / 5 + 4);
	assert_int_equal(pair_wait(&pair, &rx, 1, g_rx), len);
	assert_int_equal(pair_wait(&pair, &tx, 1, g_tx), len);
	while ((w = used)) {
		used = STAILQ_NEXT(w, link);
		mpib_wr_give(frags, w);
	}
}

/* With numbered fragments, an IMM has no payload, or a record as payload. So
 * the receiver would mistake a message of 0 bytes, or of a record's size, for
 * such an IMM. The sender sends a message of these sizes as a numbered
 * fragment. */
pair_test(a_fragment_that_looks_like_a_record_is_numbered)
{
	open_lane(MPIB_SPREAD_DQPLB, 4);
	transfer(sizeof(struct mpib_record));
	assert_int_equal(wrs(), 2);
	transfer(0);
	assert_int_equal(wrs(), 4);
	transfer(sizeof(struct mpib_record) + 1);
	assert_int_equal(wrs(), 5);
}

/* Post one message per request of the connection. */
static void post_all(struct pair_end *from, struct pair_end *to, uint32_t len)
{
	struct mpib_cts cts;

	for (uint8_t i = 0; i < MPIB_REQUESTS; i++)
		pair_post(to, MPIB_OP_RECV, i, pair.node[1].mr, RX, len, 0);
	while (!mpib_cts_copy(from->conn, MPIB_REQUESTS - 1, &cts))
		pair_turn(&pair);
	for (uint8_t i = 0; i < MPIB_REQUESTS; i++)
		pair_post(from, MPIB_OP_SEND, i, pair.node[0].mr, 0, len, 0);
}

static void wait_for_all(struct pair_end *from, struct pair_end *to,
			 uint32_t len)
{
	for (uint8_t i = 0; i < MPIB_REQUESTS; i++) {
		assert_int_equal(pair_wait(&pair, to, i, i + 1u), len);
		assert_int_equal(pair_wait(&pair, from, i, i + 1u), len);
	}
}

/* Messages that are not spread use only the first QP, whose SQ has room for
 * half of the messages here. The peer's device makes no turn, so it
 * acknowledges none of them until the sender has posted all that it can. This
 * was a bug: the sender checked only the room of the virtual QP, and the first
 * QP refused the other messages. */
pair_test(messages_that_are_not_spread_wait_for_room_in_the_sq_of_their_qp)
{
	uint32_t len = 100, depth = MPIB_REQUESTS;
	struct pair_end tx2, rx2;

	open_lane_of(MPIB_SPREAD_DQPLB, 4, depth);
	pair_connect(&pair, 1, 0, &tx2, &rx2);
	post_all(&tx, &rx, len);
	post_all(&tx2, &rx2, len);
	for (unsigned i = 0; i < 100; i++)
		mpib_shard_turn(&pair.node[0].engine->shard[0]);
	mpib_engine_dispatch(pair.node[0].engine);
	assert_string_equal(pair.node[0].why, "");
	assert_in_range(mpib_qp_outstanding(qp(0, 0)), depth - 1, depth);
	wait_for_all(&tx, &rx, len);
	wait_for_all(&tx2, &rx2, len);
}

pair_test(auto_spread_tries_both_methods)
{
	struct mpib_snapshot *s;
	uint64_t first, n;

	open_lane(MPIB_SPREAD_AUTO, 4);
	s = pair_snapshot(&pair, 0);
	assert_int_equal(s->lane[0].spread, MPIB_SPREAD_AUTO);
	assert_int_equal(s->lane[0].spread_above[MPIB_RAIL_SOUT], UINT32_MAX);
	mpib_snapshot_free(s);
	for (unsigned i = 0; i < MPIB_CHOICE_FIRST; i++)
		transfer(64 * KIB);
	/* At first, the sender sends one message as one WR, cuts the next into
	 * fragments, and so on. If one method turns out to be much faster, the
	 * sender uses only that method. */
	first = wrs();
	assert_int_equal((first - MPIB_CHOICE_FIRST) % 16, 0);
	assert_in_range(first, MPIB_CHOICE_FIRST / 2 * (1 + 17),
			1 + (MPIB_CHOICE_FIRST - 1) * 17);
	/* The sender tries the slower method again with one message in
	 * 1,024. */
	for (unsigned i = 0; i < 1200; i++)
		transfer(64 * KIB);
	n = wrs() - first;
	assert_in_range(n, 17 + 1199, 1 + 1199 * 17);
}

pair_test(ends_with_different_spreads_make_no_lane)
{
	struct mpib_lane_info info;
	struct mpib_lane *lane;

	open_lane(MPIB_SPREAD_SPRAY, 4);
	mpib_lane_local(pair.node[0].lane, &info);
	assert_int_equal(info.spread, MPIB_SPREAD_SPRAY);
	for (unsigned m = MPIB_SPREAD_SPLIT; m <= MPIB_SPREAD_AUTO; m++) {
		int rc;

		info.spread = (uint8_t)m;
		rc = mpib_lane_create(pair.node[1].tenant, 0, MPIB_PATH_UNKNOWN,
				      &info, &lane);
		assert_int_equal(rc, m == MPIB_SPREAD_SPRAY ? 0 : -EPROTO);
		if (rc == 0)
			mpib_lane_free(lane);
	}
}

pair_test(with_adaptive_routing_no_fragment_is_numbered)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	cfg.spread = MPIB_SPREAD_DQPLB;
	cfg.ar = MPIB_AR_ON;
	pair_open(&pair, &cfg, MPIB_IMM_V2);
	assert_int_equal(mpib_engine_spread(pair.node[0].engine),
			 MPIB_SPREAD_SPRAY);
	assert_int_equal(pair.node[0].lane->spread, MPIB_SPREAD_SPRAY);
}

pair_test(late_fragment_numbers_are_counted_and_dropped)
{
	struct mpib_snapshot *s;

	open_lane(MPIB_SPREAD_DQPLB, 4);
	transfer(64 * KIB);
	assert_int_equal(1, mpib_spread_received(qp(1, 1), 3, 4096));
	assert_int_equal(
		1, mpib_spread_received(qp(1, 2), MPIB_VQP_NOTIFY | 3, 4096));
	s = pair_snapshot(&pair, 1);
	assert_int_equal(s->lane[0].late, 2);
	mpib_snapshot_free(s);
	transfer(64 * KIB);
}

/* Post a WRITE_WITH_IMM with a forged IMM on a QP of the sending node. */
static void forge(struct mpib_lane_qp *q, uint32_t imm)
{
	struct mpib_wr *w;

	if (mpib_qp_fits(q, q->rail, 1)) {
		w = mpib_qp_write(q, mpib_wr_tag(MPIB_WR_UNSIGNALED, 0, 0));
		w->wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		w->wr.send_flags = IBV_SEND_SIGNALED;
		w->wr.imm_data = htobe32(imm);
		mpib_qp_add(q, w);
	}
	pair_turn(&pair);
}

/* The receiver must break the lane. Otherwise it would wait forever for the
 * fragments with the numbers in between. */
pair_test(a_fragment_number_too_far_ahead_breaks_the_lane)
{
	open_lane(MPIB_SPREAD_DQPLB, 4);
	transfer(64 * KIB);
	forge(qp(0, 2), 0x700000);
	pair_turns(&pair, 100);
	assert_int_equal(pair.node[1].lanes_broken, 1);
}

pair_test(too_many_imms_without_their_fragments_break_the_lane)
{
	open_lane(MPIB_SPREAD_DQPLB, 4);
	for (unsigned i = 0; i < 300; i++)
		forge(qp(0, 0), mpib_imm_v2(0, 1, 0, 0));
	pair_turns(&pair, 100);
	assert_int_equal(pair.node[1].lanes_broken, 1);
}
