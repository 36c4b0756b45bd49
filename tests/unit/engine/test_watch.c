/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress watchdog, by made-up time: SOUT moves at each look, and nothing of
 * SUP retires. recovery/watch.c is compiled in; here is what it calls.
 */
#include "engine/conn/conn.h"
#include "engine/recovery/stop.h"
#include "test.h"

#define MS 1000000ull

static struct mpib_engine *engine;
static struct mpib_shard *shard;
static struct mpib_lane lane;
static unsigned faults, suspicions;

bool mpib_lane_fault(struct mpib_lane *l, unsigned rail,
		     enum mpib_rail_cause cause)
{
	assert_ptr_equal(l, &lane);
	assert_int_equal(rail, MPIB_RAIL_SUP);
	assert_int_equal(cause, MPIB_CAUSE_STUCK);
	faults++;
	return true;
}

void mpib_lane_suspect(struct mpib_lane *l, unsigned rail, uint64_t ns)
{
	assert_ptr_equal(l, &lane);
	assert_int_equal(rail, MPIB_RAIL_SUP);
	assert_int_equal(ns, 2000 * MS);
	suspicions++;
}

bool mpib_qp_probe(struct mpib_lane_qp *q)
{
	fail_msg("rail %u has something outstanding", q->rail);
	return false;
}

static void open_lane(enum mpib_provider provider)
{
	free(engine);
	engine = calloc(1, sizeof(*engine) + sizeof(engine->shard[0]));
	assert_non_null(engine);
	engine->cfg.rails = 2;
	shard = &engine->shard[0];
	shard->engine = engine;
	shard->now = shard->watched_ns = 1000 * MS;
	LIST_INIT(&shard->watched);
	lane = (struct mpib_lane){
		.shard = shard, .rails = 2, .failover = true, .open = 3
	};
	for (unsigned r = 0; r < 2; r++) {
		engine->cfg.rail[r].provider = provider;
		lane.qps[r] = 1;
		lane.qp[r][0].rail = (uint8_t)r;
		/* They wrap while something is outstanding. */
		lane.qp[r][0].asked = lane.qp[r][0].retired = UINT32_MAX;
	}
	faults = suspicions = 0;
}

static int close_lane(void **state)
{
	free(engine);
	engine = NULL;
	return 0;
}

/* The shard's next look comes so much later; meanwhile a rail's WRs come back or
 * do not. */
static void look(uint64_t ms, bool sup_moves)
{
	struct mpib_lane_qp *sout = &lane.qp[MPIB_RAIL_SOUT][0];
	struct mpib_lane_qp *sup = &lane.qp[MPIB_RAIL_SUP][0];

	shard->now += ms * MS;
	/* As mpib_qp_ring() does. */
	if (!lane.watched)
		LIST_INSERT_HEAD(&shard->watched, &lane, watch_link);
	lane.watched = true;
	sout->posted = ++sout->asked;
	sout->retired = sout->asked - 1;
	if (sup_moves)
		sup->retired = sup->asked++;
	sup->posted = sup->asked;
	mpib_watch(shard);
}

/* How many looks until SUP is at fault; most: not within so many. */
static unsigned looks(uint64_t ms, unsigned most)
{
	unsigned n = 0;

	while (n < most && !faults) {
		look(ms, false);
		n++;
	}
	return n;
}

static void a_rail_that_stands_is_at_fault_after_50_ms(void **state)
{
	for (unsigned p = MPIB_PROVIDER_SOFT; p <= MPIB_PROVIDER_RDMA; p++) {
		open_lane((enum mpib_provider)p);
		look(10, true);
		assert_in_range(looks(10, 100), 5, 7);
	}
}

/* Its shard gets a core each 100 ms; so may the threads that move a rail. */
static void a_software_rail_has_longer_where_cores_are_short(void **state)
{
	open_lane(MPIB_PROVIDER_RDMA);
	look(10, true);
	assert_in_range(looks(100, 100), 3, 4);
	open_lane(MPIB_PROVIDER_SOFT);
	look(10, true);
	assert_int_equal(looks(100, 7), 7);
	/* A black hole is found all the same, */
	assert_in_range(looks(100, 100), 1, 3);
	/* and as soon where a look comes once a second. */
	open_lane(MPIB_PROVIDER_SOFT);
	look(10, true);
	assert_in_range(looks(1000, 100), 8, 10);
}

static void a_busy_time_is_forgotten(void **state)
{
	open_lane(MPIB_PROVIDER_SOFT);
	for (unsigned i = 0; i < 10; i++)
		look(100, true);
	for (unsigned i = 0; i < 500; i++)
		look(10, true);
	assert_in_range(looks(10, 100), 5, 7);
}

/* The shard slept, for nothing was under way. */
static void a_sleep_is_no_busy_time(void **state)
{
	open_lane(MPIB_PROVIDER_SOFT);
	shard->now += 10 * MS;
	mpib_watch(shard);
	look(5000, true);
	assert_in_range(looks(10, 100), 3, 7);
}

/* SOUT is out: nothing shows whether the peer's node stands still. */
static void open_alone(void)
{
	open_lane(MPIB_PROVIDER_RDMA);
	lane.open = mpib_rail_bit(MPIB_RAIL_SUP);
	look(10, true);
}

static void the_last_rail_is_suspected_after_3_s_and_each_second(void **state)
{
	open_alone();
	assert_int_equal(looks(10, 295), 295);
	assert_int_equal(suspicions, 0);
	assert_int_equal(looks(10, 10), 10);
	assert_int_equal(suspicions, 1);
	assert_int_equal(looks(10, 200), 200);
	assert_int_equal(suspicions, 3);
	assert_int_equal(faults, 0);
}

static void the_last_rail_is_not_suspected_while_it_moves(void **state)
{
	open_alone();
	for (unsigned n = 0; n < 10; n++) {
		assert_int_equal(looks(10, 290), 290);
		look(10, true);
	}
	assert_int_equal(suspicions, 0);
}

/* What is in flight takes as long at the slowest that a rail is taken to be. */
static void the_last_rail_has_the_time_that_its_bytes_take(void **state)
{
	open_alone();
	lane.track[MPIB_RAIL_SUP].inflight = 10 << 20;
	assert_int_equal(looks(10, 490), 490);
	assert_int_equal(suspicions, 0);
	assert_int_equal(looks(10, 30), 30);
	assert_int_equal(suspicions, 1);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(a_rail_that_stands_is_at_fault_after_50_ms),
	cmocka_unit_test(a_software_rail_has_longer_where_cores_are_short),
	cmocka_unit_test(a_busy_time_is_forgotten),
	cmocka_unit_test(a_sleep_is_no_busy_time),
	cmocka_unit_test(the_last_rail_is_suspected_after_3_s_and_each_second),
	cmocka_unit_test(the_last_rail_is_not_suspected_while_it_moves),
	cmocka_unit_test(the_last_rail_has_the_time_that_its_bytes_take),
	{ 0 },
};
struct test_group test_group = { .teardown = close_lane };
