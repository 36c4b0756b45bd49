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

const struct CMUnitTest test_list[] = {
	cmocka_unit_test_setup_teardown(
		the_last_fail_over_is_the_latest_of_any_shard, setup,
		pair_teardown),
	{ 0 },
};
