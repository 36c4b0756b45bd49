/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress watchdog in simulated time. SOUT makes progress at each check,
 * and SUP completes nothing. The linker replaces two functions that watch.c
 * calls by the __wrap_ functions below.
 */
#include "engine/conn/conn.h"
#include "engine/recovery/stop.h"
#include "test.h"

#define MS 1000000ull

static struct mpib_engine *engine;
static struct mpib_shard *shard;
static struct mpib_lane lane;
static unsigned suspicions;

WRAPS(void, mpib_lane_suspect, struct mpib_lane *l, unsigned rail)
{
	assert_ptr_equal(l, &lane);
	assert_int_equal(rail, MPIB_RAIL_SUP);
	suspicions++;
}

WRAPS(bool, mpib_qp_probe, struct mpib_lane_qp *q)
{
	fail_msg("rail %u has outstanding WRs", q->rail);
	return false;
}

static void open_lane(void)
{
	free(engine);
	engine = calloc(1, sizeof(*engine) + sizeof(engine->shard[0]));
	assert_non_null(engine);
	engine->cfg.rails = 2;
	shard = &engine->shard[0];
	shard->engine = engine;
	shard->now = shard->watched_ns = 1000 * MS;
	LIST_INIT(&shard->watched);
	TAILQ_INIT(&shard->looks);
	lane = (struct mpib_lane){
		.shard = shard, .rails = 2, .failover = true, .open = 3
	};
	for (unsigned r = 0; r < 2; r++) {
		lane.qps[r] = 1;
		lane.qp[r][0].rail = (uint8_t)r;
		/* Start at the maximum, so that the counters wrap while WRs are
		 * outstanding. */
		lane.qp[r][0].asked = lane.qp[r][0].retired = UINT32_MAX;
	}
	suspicions = 0;
}

static int close_lane(void **state)
{
	free(engine);
	engine = NULL;
	return 0;
}

/* Advance the time by `ms` milliseconds, and let the shard check its rails. If
 * `sup_moves` is set, a WR of SUP completes before the check. */
static void look(uint64_t ms, bool sup_moves)
{
	struct mpib_lane_qp *sout = &lane.qp[MPIB_RAIL_SOUT][0];
	struct mpib_lane_qp *sup = &lane.qp[MPIB_RAIL_SUP][0];

	shard->now += ms * MS;
	/* Watch the lane, as mpib_qp_ring() does. */
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

/* Check every `ms` ms. Return the number of checks until SUP is suspected, or
 * `most` if SUP is not suspected. */
static unsigned looks(uint64_t ms, unsigned most)
{
	unsigned n = 0, before = suspicions;

	while (n < most && suspicions == before) {
		look(ms, false);
		n++;
	}
	return n;
}

TEST(a_rail_without_progress_is_suspected_after_50_ms)
{
	open_lane();
	look(10, true);
	assert_in_range(looks(10, 100), 5, 7);
}

/* The shard gets the core every 100 ms. Only 20 ms of each interval count. */
TEST(time_without_a_core_counts_little)
{
	open_lane();
	look(10, true);
	assert_in_range(looks(100, 100), 3, 4);
}

TEST(a_rail_is_suspected_only_once_until_it_is_judged)
{
	open_lane();
	look(10, true);
	assert_in_range(looks(10, 100), 5, 7);
	assert_int_equal(looks(10, 1000), 1000);
	assert_true(mpib_watch_is_stuck(&lane, MPIB_RAIL_SUP, false));
}

TEST(progress_at_either_end_restarts_the_time_of_a_rail)
{
	open_lane();
	look(10, true);
	assert_in_range(looks(10, 100), 5, 7);
	assert_false(mpib_watch_is_stuck(&lane, MPIB_RAIL_SUP, true));
	assert_in_range(looks(10, 100), 5, 7);
	lane.qp[MPIB_RAIL_SUP][0].retired++;
	assert_false(mpib_watch_is_stuck(&lane, MPIB_RAIL_SUP, false));
	lane.qp[MPIB_RAIL_SUP][0].retired--;
	assert_in_range(looks(10, 100), 5, 7);
}

/* Open a lane whose SOUT is down, so that no other rail shows whether the
 * peer's node is stopped. */
static void open_alone(void)
{
	open_lane();
	lane.open = mpib_rail_bit(MPIB_RAIL_SUP);
	look(10, true);
}

TEST(the_last_rail_is_suspected_after_3_s)
{
	open_alone();
	assert_in_range(looks(10, 1000), 299, 302);
}

TEST(the_last_rail_is_not_suspected_while_it_makes_progress)
{
	open_alone();
	for (unsigned n = 0; n < 10; n++) {
		assert_int_equal(looks(10, 290), 290);
		look(10, true);
	}
	assert_int_equal(suspicions, 0);
}

/* The rail is suspected only after the time that its bytes in flight would take
 * on the slowest supported rail. */
TEST(the_last_rail_is_given_the_time_that_its_bytes_need)
{
	open_alone();
	lane.track[MPIB_RAIL_SUP].inflight = 10 << 20;
	assert_int_equal(looks(10, 490), 490);
	assert_in_range(looks(10, 30), 1, 29);
}

struct test_group test_group = { .teardown = close_lane };
