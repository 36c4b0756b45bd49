/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deadlines of fail-over: all lanes of an engine share one timer, and none's
 * deadline goes with what is armed for another, or while a hand-over runs that
 * fails.
 */
#include <unistd.h>

#include "base/clock.h"
#include "engine/handover/handover.h"
#include "engine/lane/lane.h"
#include "engine_pair.h"
#include "test.h"

#define SOON 1000000u /* ns */

static struct pair pair, more;
static struct mpib_engine *engine;
static struct mpib_lane *lane, *other;

static int setup(void **state)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	cfg.hold_ms = 48000;
	pair_open(&pair, &cfg, MPIB_IMM_V2);
	pair_join(&pair, &more, 1);
	engine = pair.node[1].engine;
	lane = pair.node[1].lane;
	other = more.node[1].lane;
	/* Nothing of what made them is left to be done. */
	for (unsigned i = 0; i < 100; i++)
		pair_turn(&pair);
	return 0;
}

static int teardown(void **state)
{
	pair_close(&pair);
	pair_leave(&more);
	return 0;
}

static uint64_t arm_soon(void)
{
	uint64_t at = mpib_now_ns() + SOON;

	mpib_rail_arm(engine, at);
	return at;
}

static void pass(uint64_t at)
{
	while (mpib_now_ns() <= at)
		usleep(SOON / 1000);
}

/* A message is handled first, in the turn in which the timer has expired. */
static void
a_later_deadline_does_not_take_the_place_of_one_that_is_due(void **s)
{
	uint64_t *hold = &lane->ctl.rail[0].hold_until;
	uint64_t *others = &other->ctl.rail[0].hold_until;

	*hold = arm_soon();
	pass(*hold);
	mpib_rail_hold(other, 0);
	assert_true(*others > mpib_now_ns() + 1000 * SOON);
	mpib_failover_dispatch(engine);
	assert_int_equal(*hold, 0);
	assert_int_not_equal(*others, 0);
	/* And that one is armed now: an earlier one goes before it. */
	*hold = arm_soon();
	pass(*hold);
	mpib_failover_dispatch(engine);
	assert_int_equal(*hold, 0);
}

static void an_earlier_deadline_is_kept_though_a_later_one_is_set(void **state)
{
	uint64_t *hold = &lane->ctl.rail[0].hold_until;

	mpib_rail_hold(other, 0);
	*hold = arm_soon();
	mpib_rail_hold(other, 1);
	pass(*hold);
	mpib_failover_dispatch(engine);
	assert_int_equal(*hold, 0);
}

/* The lane waits for the peer's answer to a fence, and no rail of it is DOWN. */
static void what_a_hand_over_left_alone_goes_on_when_it_fails(void **state)
{
	engine->leaving = true;
	lane->ctl.grace_until = arm_soon();
	pass(lane->ctl.grace_until);
	mpib_failover_dispatch(engine);
	assert_int_not_equal(lane->ctl.grace_until, 0);
	mpib_engine_stay(engine);
	mpib_failover_dispatch(engine);
	assert_int_equal(lane->ctl.grace_until, 0);
}

const struct CMUnitTest test_list[] = {
	fixture_test(
		a_later_deadline_does_not_take_the_place_of_one_that_is_due),
	fixture_test(an_earlier_deadline_is_kept_though_a_later_one_is_set),
	fixture_test(what_a_hand_over_left_alone_goes_on_when_it_fails),
	{ 0 },
};
