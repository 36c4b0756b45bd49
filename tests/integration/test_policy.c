/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test engine/split/mode.h between two nodes on software rails: check exactly
 * which bytes each mode sends over each rail.
 */
#include <errno.h>
#include <mpib/agent.h>

#include "engine/conn/conn.h"
#include "engine/split/mode.h"
#include "engine_pair.h"
#include "test.h"

#define MIB (1u << 20)
#define RX (PAIR_MEM / 2)
#define SLOT 7u

static struct pair pair;
static struct pair_end tx, rx;
static struct {
	struct mpib_hint_shm first;
	struct mpib_hint_entry more[MPIB_HINT_MORE_MAX];
} hints;
static uint64_t seen[MPIB_RAILS];

static void open_mode(enum mpib_mode mode, enum mpib_path path)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	cfg.mode = (uint8_t)mode;
	pair_open_on(&pair, &cfg, MPIB_IMM_V2, path);
	memset(&hints, 0, sizeof(hints));
	memset(seen, 0, sizeof(seen));
	mpib_engine_set_hints(pair.node[0].engine, &hints.first);
	pair_connect(&pair, 5, 0, &tx, &rx);
}

static void transfer(uint32_t len)
{
	uint32_t g_rx =
		pair_post(&rx, MPIB_OP_RECV, 1, pair.node[1].mr, RX, len, 0);
	uint32_t g_tx =
		pair_post(&tx, MPIB_OP_SEND, 1, pair.node[0].mr, 0, len, 0);

	assert_int_equal(pair_wait(&pair, &rx, 1, g_rx), len);
	assert_int_equal(pair_wait(&pair, &tx, 1, g_tx), len);
}

/* Check how many bytes each rail has moved since the last call. */
static void expect_moved(uint64_t sout, uint64_t sup)
{
	struct mpib_snapshot *a = pair_snapshot(&pair, 0);
	struct mpib_snapshot *b = pair_snapshot(&pair, 1);

	for (unsigned r = 0; r < MPIB_RAILS; r++)
		assert_int_equal(a->rail[r].n.tx_bytes, b->rail[r].n.rx_bytes);
	assert_int_equal(a->rail[0].n.tx_bytes - seen[0], sout);
	assert_int_equal(a->rail[1].n.tx_bytes - seen[1], sup);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		seen[r] = a->rail[r].n.tx_bytes;
	mpib_snapshot_free(a);
	mpib_snapshot_free(b);
}

/* The rows are the examples in the agent's contract (include/mpib/agent.h), and
 * further examples of its rules. */
pair_test(a_hint_is_followed_exactly)
{
	static const struct {
		uint32_t sup_bw, len, sup;
	} row[] = {
		{ 0, MIB, 0 },		{ 256, MIB, 262144 },
		{ 512, MIB, 524288 },	{ 768, MIB, 786432 },
		{ 1024, MIB, MIB },	{ 5000, MIB, MIB },
		{ UINT32_MAX, 5, 5 },	{ 512, 255, 0 },
		{ 512, 256, 128 },	{ 1023, 1000, 896 },
		{ 1, 128 * 1024, 128 }, { 1, 128 * 1024 - 1, 0 },
	};
	open_mode(MPIB_MODE_ADVANCED, MPIB_PATH_UNKNOWN);
	engine_conn_set_hint(tx.conn, SLOT);
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct mpib_snapshot *a = pair_snapshot(&pair, 0), *b;

		mpib_hint_write(&hints.first.entries[SLOT], row[i].sup_bw);
		transfer(row[i].len);
		b = pair_snapshot(&pair, 0);
		assert_int_equal(b->rail[1].n.tx_bytes - a->rail[1].n.tx_bytes,
				 row[i].sup);
		assert_int_equal(b->rail[0].n.tx_bytes - a->rail[0].n.tx_bytes,
				 row[i].len - row[i].sup);
		assert_int_equal(b->rail[1].n.tx_wrs - a->rail[1].n.tx_wrs,
				 row[i].sup > 0);
		assert_int_equal(b->rail[0].n.tx_wrs - a->rail[0].n.tx_wrs,
				 row[i].len > row[i].sup);
		/* Each rail that carries bytes must use exactly one WR and one
		 * completion. */
		assert_int_equal(b->rail[1].cqes - a->rail[1].cqes,
				 row[i].sup > 0);
		assert_int_equal(b->rail[0].cqes - a->rail[0].cqes,
				 row[i].len > row[i].sup);
		mpib_snapshot_free(a);
		mpib_snapshot_free(b);
	}
}

pair_test(without_a_hint_slot_all_bytes_use_sout)
{
	static const uint32_t slot[] = { UINT32_MAX, MPIB_HINT_SLOTS_MAX,
					 MPIB_HINT_SLOTS_MAX - 1, SLOT };

	open_mode(MPIB_MODE_ADVANCED, MPIB_PATH_UNKNOWN);
	for (uint32_t i = 0; i < MPIB_HINT_SLOTS_MAX; i++)
		mpib_hint_write(mpib_hint_at(&hints, i), 1024);
	for (unsigned i = 0; i < 4; i++) {
		bool there = slot[i] < MPIB_HINT_SLOTS_MAX;

		engine_conn_set_hint(tx.conn, slot[i]);
		transfer(MIB);
		expect_moved(there ? 0 : MIB, there ? MIB : 0);
	}
	/* When the agent has left, its hint no longer applies. */
	engine_conn_set_hint(tx.conn, UINT32_MAX);
	transfer(MIB);
	expect_moved(MIB, 0);
}

pair_test(if_an_agent_dies_while_it_writes_the_last_complete_hint_applies)
{
	open_mode(MPIB_MODE_ADVANCED, MPIB_PATH_UNKNOWN);
	engine_conn_set_hint(tx.conn, SLOT);
	mpib_hint_write(&hints.first.entries[SLOT], 256);
	transfer(MIB);
	expect_moved(786432, 262144);
	hints.first.entries[SLOT].seq++;
	hints.first.entries[SLOT].sup_bw = 1024;
	transfer(MIB);
	expect_moved(786432, 262144);
	/* When the next agent writes a hint, this hint applies. */
	mpib_hint_write(&hints.first.entries[SLOT], 512);
	transfer(MIB);
	expect_moved(524288, 524288);
}

/* The client posts a message part by part, and the hint changes between two
 * parts. */
pair_test(the_hint_is_read_once_per_message)
{
	struct mpib_desc d = {
		.op = MPIB_OP_SEND,
		.req = 3,
		.n = 1,
		.len = MIB,
		.total = 2 * MIB,
	};
	uint32_t g;

	open_mode(MPIB_MODE_ADVANCED, MPIB_PATH_UNKNOWN);
	engine_conn_set_hint(tx.conn, SLOT);
	mpib_hint_write(&hints.first.entries[SLOT], 256);
	g = pair_post(&rx, MPIB_OP_RECV, 3, pair.node[1].mr, RX, 2 * MIB, 0);
	d.mr = pair.node[0].mr;
	d.gen = ++tx.gen;
	pair_push(&tx, &d);
	pair_turns(&pair, 1000);
	mpib_hint_write(&hints.first.entries[SLOT], 1024);
	d.off = d.pos = MIB;
	pair_push(&tx, &d);
	assert_int_equal(pair_wait(&pair, &rx, 3, g), 2 * MIB);
	assert_int_equal(pair_wait(&pair, &tx, 3, d.gen), 2 * MIB);
	expect_moved(2 * 786432, 2 * 262144);
	transfer(MIB);
	expect_moved(0, MIB);
}

pair_test(small_messages_to_another_island_do_not_use_sup)
{
	for (unsigned p = MPIB_PATH_INTRA; p <= MPIB_PATH_INTER; p++) {
		bool far = p == MPIB_PATH_INTER;

		open_mode(MPIB_MODE_ADVANCED, (enum mpib_path)p);
		engine_conn_set_hint(tx.conn, SLOT);
		mpib_hint_write(&hints.first.entries[SLOT], 1024);
		transfer(64 << 10);
		expect_moved(far ? 64 << 10 : 0, far ? 0 : 64 << 10);
		transfer((64 << 10) + 1);
		expect_moved(0, (64 << 10) + 1);
		pair_close(&pair);
	}
}

/* Payload, empty messages and CTS all use SUP. */
pair_test(vanilla_mode_uses_only_sup_within_an_island)
{
	struct mpib_snapshot *a, *b;

	open_mode(MPIB_MODE_VANILLA, MPIB_PATH_INTRA);
	transfer(MIB + 5);
	transfer(0);
	transfer(1);
	a = pair_snapshot(&pair, 0);
	b = pair_snapshot(&pair, 1);
	assert_int_equal(a->rail[1].n.tx_bytes, MIB + 6);
	assert_int_equal(a->rail[1].qps, 4);
	assert_int_equal(a->rail[0].qps, 2);
	assert_int_equal(b->rail[1].n.cts, 3);
	assert_int_equal(a->rail[0].n.tx_wrs + b->rail[0].n.tx_wrs, 0);
	assert_int_equal(a->rail[0].cqes + b->rail[0].cqes, 0);
	assert_int_equal(a->conn[0].why.sup_bw, 1024);
	assert_int_equal(a->conn[0].why.source, MPIB_SPLIT_ISOLATION);
	mpib_snapshot_free(a);
	mpib_snapshot_free(b);
}

pair_test(vanilla_mode_makes_no_sup_qps_to_another_island)
{
	struct mpib_lane_info info;
	struct mpib_snapshot *a, *b;

	open_mode(MPIB_MODE_VANILLA, MPIB_PATH_INTER);
	transfer(MIB + 5);
	transfer(0);
	transfer(1);
	mpib_lane_local(pair.node[0].lane, &info);
	assert_int_equal(info.rails, 1);
	a = pair_snapshot(&pair, 0);
	b = pair_snapshot(&pair, 1);
	assert_int_equal(a->rail[0].n.tx_bytes, MIB + 6);
	assert_int_equal(a->rail[0].qps, 2);
	assert_int_equal(a->rail[1].qps + b->rail[1].qps, 0);
	assert_int_equal(a->lane[0].qps[1], 0);
	assert_int_equal(b->rail[0].n.cts, 3);
	assert_int_equal(a->rail[1].n.tx_wrs + b->rail[1].n.tx_wrs, 0);
	assert_int_equal(a->conn[0].why.sup_bw, 0);
	assert_int_equal(a->conn[0].why.source, MPIB_SPLIT_ISOLATION);
	mpib_snapshot_free(a);
	mpib_snapshot_free(b);
}

pair_test(ends_with_different_modes_or_paths_make_no_lane)
{
	struct mpib_lane_info info;
	struct mpib_lane *lane;
	struct mpib_tenant *t;

	open_mode(MPIB_MODE_VANILLA, MPIB_PATH_INTRA);
	mpib_lane_local(pair.node[0].lane, &info);
	t = pair.node[1].tenant;
	assert_int_equal(mpib_lane_create(t, 0, MPIB_PATH_INTER, &info, &lane),
			 -EPROTO);
	info.mode = MPIB_MODE_ADAPTIVE;
	assert_int_equal(mpib_lane_create(t, 0, MPIB_PATH_INTRA, &info, &lane),
			 -EPROTO);
	assert_string_equal(
		mpib_engine_last_error(pair.node[1].engine, -EPROTO),
		"its mode and path are vanilla, intra-island, those of the "
		"other end are adaptive, intra-island (give both nodes the "
		"same mode and islands)");
	pair_close(&pair);

	/* In static and adaptive mode both ends use SUP, so each end may split
	 * in its own way. */
	open_mode(MPIB_MODE_STATIC, MPIB_PATH_INTRA);
	mpib_lane_local(pair.node[0].lane, &info);
	t = pair.node[1].tenant;
	info.mode = MPIB_MODE_ADAPTIVE;
	assert_int_equal(
		mpib_lane_create(t, 0, MPIB_PATH_UNKNOWN, &info, &lane), 0);
	mpib_lane_free(lane);
}

pair_test(the_current_split_is_reported_with_its_source)
{
	struct mpib_snapshot *a;

	open_mode(MPIB_MODE_ADVANCED, MPIB_PATH_UNKNOWN);
	engine_conn_set_hint(tx.conn, SLOT);
	mpib_hint_write(&hints.first.entries[SLOT], 300);
	transfer(MIB);
	a = pair_snapshot(&pair, 0);
	assert_int_equal(a->conn[0].why.source, MPIB_SPLIT_HINT);
	assert_int_equal(a->conn[0].why.sup_bw, 300);
	assert_int_equal(a->conn[0].why.hint_slot, SLOT);
	mpib_snapshot_free(a);
	engine_conn_set_hint(tx.conn, UINT32_MAX);
	a = pair_snapshot(&pair, 0);
	assert_int_equal(a->conn[0].why.sup_bw, 0);
	assert_int_equal(a->conn[0].why.hint_slot, UINT32_MAX);
	mpib_snapshot_free(a);
	pair_close(&pair);

	open_mode(MPIB_MODE_ADAPTIVE, MPIB_PATH_UNKNOWN);
	for (unsigned i = 0; i < 20; i++)
		transfer(MIB);
	a = pair_snapshot(&pair, 0);
	assert_int_equal(a->conn[0].why.source, MPIB_SPLIT_ADAPTIVE);
	assert_in_range(a->conn[0].why.sup_bw, 0, 1024);
	assert_true(a->lane[0].track[0].acked > 0);
	assert_true(a->lane[0].track[0].srtt > 0);
	mpib_snapshot_free(a);
	pair_close(&pair);

	open_mode(MPIB_MODE_STATIC, MPIB_PATH_UNKNOWN);
	a = pair_snapshot(&pair, 0);
	assert_int_equal(a->conn[0].why.source, MPIB_SPLIT_STATIC);
	assert_int_equal(a->conn[0].why.sup_bw, 512);
	mpib_snapshot_free(a);
}

static struct mpib_split_why why(void)
{
	struct mpib_snapshot *a = pair_snapshot(&pair, 0);
	struct mpib_split_why why = a->conn[0].why;

	mpib_snapshot_free(a);
	return why;
}

pair_test(a_hint_is_reported_before_the_first_message)
{
	open_mode(MPIB_MODE_ADVANCED, MPIB_PATH_UNKNOWN);
	engine_conn_set_hint(tx.conn, SLOT);
	mpib_hint_write(&hints.first.entries[SLOT], 512);
	assert_int_equal(why().sup_bw, 512);
	transfer(MIB);
	expect_moved(MIB / 2, MIB / 2);
}

pair_test(an_unusable_rail_is_reported_in_every_mode)
{
	for (unsigned m = 0; m <= MPIB_MODE_STATIC; m++) {
		open_mode((enum mpib_mode)m, MPIB_PATH_INTRA);
		pair.node[0].lane->open = 1u << MPIB_RAIL_SOUT;
		pair.node[0].lane->use = pair.node[0].lane->open;
		assert_int_equal(why().source, MPIB_SPLIT_FAILOVER);
		assert_int_equal(why().sup_bw, 0);
		pair_close(&pair);
	}
}

pair_test(the_reported_age_of_a_split_is_at_most_that_of_the_connection)
{
	for (unsigned m = 0; m <= MPIB_MODE_STATIC; m++) {
		open_mode((enum mpib_mode)m, MPIB_PATH_INTRA);
		pair.node[0].lane->adapt.since = 1;
		assert_true(why().age_ns <=
			    tx.conn->shard->now - tx.conn->since);
		pair_close(&pair);
	}
}
