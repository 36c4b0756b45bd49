/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deadlines of fail-over: all lanes of an engine share one timer, and none's
 * deadline goes with what is armed for another.
 */
#include <unistd.h>

#include "base/clock.h"
#include "engine/lane/lane.h"
#include "engine/recovery/stop.h"
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

/* All that is due, though a slow machine needs two turns for it. */
static void dispatch(void)
{
	mpib_failover_dispatch(engine);
	mpib_failover_dispatch(engine);
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
	dispatch();
	assert_int_equal(*hold, 0);
	assert_int_not_equal(*others, 0);
	/* And that one is armed now: an earlier one goes before it. */
	*hold = arm_soon();
	pass(*hold);
	dispatch();
	assert_int_equal(*hold, 0);
}

static void an_earlier_deadline_is_kept_though_a_later_one_is_set(void **state)
{
	uint64_t *hold = &lane->ctl.rail[0].hold_until;

	mpib_rail_hold(other, 0);
	*hold = arm_soon();
	mpib_rail_hold(other, 1);
	pass(*hold);
	dispatch();
	assert_int_equal(*hold, 0);
}

/* The peer of its lanes is played here. */
static void fence(struct mpib_lane *l)
{
	const struct mpib_rail_msg fenced = { .type = MPIB_RAIL_FENCED };

	l->failover = true;
	mpib_lane_established(l);
	assert_true(mpib_lane_fault(l, 0, MPIB_CAUSE_ERROR));
	while (!l->stop[0].told)
		pair_turn(&pair);
	assert_true(mpib_lane_receive(l, &fenced));
	while (!l->ctl.rail[0].hold_until)
		pair_turn(&pair);
}

static const struct mpib_verbs *quick;

static int create_slowly(struct ibv_pd *pd, struct ibv_qp_init_attr *init,
			 struct ibv_qp **qp)
{
	usleep(30000);
	return quick->create_qp(pd, init, qp);
}

/* Clients and peers are served by the same thread. */
static void many_rails_do_not_come_back_all_in_one_turn(void **state)
{
	struct mpib_rail *rail = &engine->shard[0].rail[0];
	uint64_t *hold = &lane->ctl.rail[0].hold_until;
	uint64_t *others = &other->ctl.rail[0].hold_until;
	struct mpib_verbs slow = *rail->verbs;

	quick = rail->verbs;
	fence(lane);
	fence(other);
	slow.create_qp = create_slowly;
	rail->verbs = &slow;
	*hold = *others = arm_soon();
	pass(*hold);
	mpib_failover_dispatch(engine);
	assert_int_equal(!*hold + !*others, 1);
	/* Whose turn is next, though it may be due again. */
	assert_ptr_equal(TAILQ_FIRST(&engine->lanes), *hold ? lane : other);
	mpib_failover_dispatch(engine);
	assert_int_equal(!*hold + !*others, 2);
	rail->verbs = quick;
	lane->failover = other->failover = false;
}

static int modify_slowly(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	usleep(30000);
	return quick->modify_qp(qp, attr, mask);
}

static unsigned stopped(void)
{
	return (lane->ctl.rail[0].fence.state != MPIB_FENCE_LIVE) +
	       (other->ctl.rail[0].fence.state != MPIB_FENCE_LIVE);
}

static void a_port_that_goes_down_stops_its_lanes_not_all_in_one_turn(void **s)
{
	struct mpib_rail *rail = &engine->shard[0].rail[0];
	struct mpib_verbs slow = *rail->verbs;

	quick = rail->verbs;
	slow.modify_qp = modify_slowly;
	lane->failover = other->failover = true;
	mpib_lane_established(lane);
	mpib_lane_established(other);
	rail->verbs = &slow;
	mpib_engine_rail_port(engine, 0, 0, false);
	assert_int_equal(stopped(), 1);
	mpib_failover_dispatch(engine);
	assert_int_equal(stopped(), 2);
	rail->verbs = quick;
	lane->failover = other->failover = false;
}

const struct CMUnitTest test_list[] = {
	fixture_test(
		a_later_deadline_does_not_take_the_place_of_one_that_is_due),
	fixture_test(an_earlier_deadline_is_kept_though_a_later_one_is_set),
	fixture_test(many_rails_do_not_come_back_all_in_one_turn),
	fixture_test(a_port_that_goes_down_stops_its_lanes_not_all_in_one_turn),
	{ 0 },
};
