/* SPDX-License-Identifier: Apache-2.0 */
/* What a snapshot makes of what several shards counted. */
#include "engine_pair.h"
#include "test.h"

static struct pair pair;

static int setup(void **state)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	cfg.shards = 2;
	pair_open(&pair, &cfg, MPIB_IMM_V2);
	return 0;
}

static void fail_over(unsigned shard, uint64_t at, uint64_t ns)
{
	struct mpib_snap_failover *n =
		&pair.node[0].engine->shard[shard].rail[1].n.failover;

	n->last_at = at;
	n->last_ns = ns;
	n->sum_ns += ns;
}

static uint64_t last(void)
{
	struct mpib_snapshot *snap = pair_snapshot(&pair, 0);
	uint64_t ns = snap->rail[1].failover.last_ns;

	assert_int_equal(snap->rail[0].failover.last_ns, 0);
	mpib_snapshot_free(snap);
	return ns;
}

struct taken {
	struct mpib_snapshot *snap;
	bool done;
};

static void on_snapshot(void *arg, struct mpib_snapshot *snap)
{
	struct taken *t = arg;

	t->snap = snap;
	t->done = true;
}

static void the_last_fail_over_is_the_latest_of_any_shard(void **state)
{
	assert_int_equal(last(), 0);
	fail_over(0, 1000, 70);
	assert_int_equal(last(), 70);
	fail_over(1, 1500, 50);
	assert_int_equal(last(), 50);
	fail_over(0, 2000, 90);
	assert_int_equal(last(), 90);
}

/* What was made on a shard after the room was counted, and before that shard had
 * its turn, takes no place of what is on the next. */
static void what_is_new_leaves_room_for_what_is_old(void **state)
{
	struct mpib_shard *busy = &pair.node[0].engine->shard[0];
	struct mpib_snapshot *snap;
	struct pair_end end[4];
	struct taken t = { 0 };
	struct pair old;

	pair_join_on(&pair, &old, 1, 1, 1);
	pair_connect(&pair, 5, 0, &end[0], &end[1]);
	pair_connect(&old, 5, 0, &end[2], &end[3]);
	busy->lanes_made--;
	busy->conns_made--;
	busy->clients_made--;
	assert_int_equal(
		mpib_engine_snapshot(pair.node[0].engine, on_snapshot, &t), 0);
	busy->lanes_made++;
	busy->conns_made++;
	busy->clients_made++;
	pair_until(&pair, &t.done);
	snap = t.snap;
	assert_int_equal(snap->lanes, 2);
	assert_int_equal(snap->conns, 2);
	assert_int_equal(snap->clients, 2);
	assert_int_equal(snap->lane[1].shard, 1);
	mpib_snapshot_free(snap);
	pair_close(&pair);
	pair_leave(&old);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test_setup_teardown(what_is_new_leaves_room_for_what_is_old,
					setup, pair_teardown),
	cmocka_unit_test_setup_teardown(
		the_last_fail_over_is_the_latest_of_any_shard, setup,
		pair_teardown),
	{ 0 },
};
