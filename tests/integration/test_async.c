/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of engine/async.c. The control thread reads the asynchronous events of
 * devices and passes them to the shards in order. The control thread never
 * blocks on a device that has no event.
 */
#include <errno.h>
#include <unistd.h>

#include "engine/lane/lane.h"
#include "engine_pair.h"
#include "test.h"
#include "verbs/soft/soft.h"

static struct pair pair;

/* The test, which acts as the device, reports these events. */
static struct ibv_async_event script[8];
static unsigned told, scripted, acked;
static union ibv_gid gid_now;
static uint64_t mbps_now;
static unsigned asked;

static int scripted_event(struct ibv_context *ctx, struct ibv_async_event *ev)
{
	if (told == scripted)
		return -EAGAIN;
	*ev = script[told++];
	return 0;
}

static void scripted_ack(struct ibv_async_event *ev)
{
	acked++;
}

static int scripted_port(struct ibv_context *ctx, uint8_t port,
			 struct mpib_port_info *info)
{
	int rc = mpib_verbs_soft.query_port(ctx, port, info);

	asked++;
	info->gid = gid_now;
	info->speed_mbps = mbps_now;
	return rc;
}

static struct mpib_verbs scripted_verbs;

static struct mpib_rail *rail_of(unsigned node, unsigned r)
{
	return &pair.node[node].engine->shard[0].rail[r];
}

static int setup(void **state)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	pair_open(&pair, &cfg, MPIB_IMM_V2);
	told = scripted = acked = 0;
	scripted_verbs = mpib_verbs_soft;
	scripted_verbs.get_async_event = scripted_event;
	scripted_verbs.ack_async_event = scripted_ack;
	scripted_verbs.query_port = scripted_port;
	gid_now = rail_of(0, 1)->port.gid;
	mbps_now = rail_of(0, 1)->port.speed_mbps;
	asked = 0;
	return 0;
}

static int teardown(void **state)
{
	rail_of(0, 1)->verbs = &mpib_verbs_soft;
	pair_close(&pair);
	return 0;
}

static void say(enum ibv_event_type type)
{
	script[scripted].event_type = type;
	script[scripted++].element.port_num = 1;
}

fixture_test(a_shard_counts_link_losses_and_recoveries)
{
	struct mpib_soft_fault fault = { .link_down = 1 };

	pair_turns(&pair, 10);
	assert_true(rail_of(0, 1)->up);
	mpib_soft_set_fault(rail_of(0, 1)->ctx, &fault);
	pair_turns(&pair, 10);
	assert_false(rail_of(0, 1)->up);
	assert_true(rail_of(0, 0)->up);
	assert_false(pair.node[0].engine->rail_up[1]);
	assert_int_equal(rail_of(0, 1)->downs, 1);
	fault.link_down = 0;
	mpib_soft_set_fault(rail_of(0, 1)->ctx, &fault);
	pair_turns(&pair, 10);
	assert_true(rail_of(0, 1)->up);
	assert_true(pair.node[0].engine->rail_up[1]);
}

static void takes_the_rail_down_for_good(enum ibv_event_type fatal)
{
	rail_of(0, 1)->verbs = &scripted_verbs;
	say(fatal);
	pair_turns(&pair, 4);
	assert_false(rail_of(0, 1)->up);
	assert_true(rail_of(0, 1)->lost);
	assert_int_equal(mpib_engine_lost(pair.node[0].engine), 2);
	say(IBV_EVENT_PORT_ACTIVE);
	pair_turns(&pair, 4);
	assert_false(rail_of(0, 1)->up);
	assert_int_equal(acked, 2);
}

fixture_test(a_dead_device_takes_its_rail_down_for_good)
{
	takes_the_rail_down_for_good(IBV_EVENT_DEVICE_FATAL);
}

fixture_test(a_full_cq_takes_its_rail_down_for_good)
{
	takes_the_rail_down_for_good(IBV_EVENT_CQ_ERR);
}

/* Act as a removed device: fail each read of an event. */
static int no_device(struct ibv_context *ctx, struct ibv_async_event *ev)
{
	return -EIO;
}

fixture_test(a_removed_device_takes_its_rail_down_once)
{
	scripted_verbs.get_async_event = no_device;
	rail_of(0, 1)->verbs = &scripted_verbs;
	pair_turns(&pair, 4);
	assert_true(rail_of(0, 1)->lost);
	assert_int_equal(rail_of(0, 1)->downs, 1);
}

fixture_test(events_of_another_port_are_ignored)
{
	rail_of(0, 1)->verbs = &scripted_verbs;
	say(IBV_EVENT_PORT_ERR);
	script[0].element.port_num = 2;
	pair_turns(&pair, 4);
	assert_int_equal(acked, 1);
	assert_true(rail_of(0, 1)->up);
}

fixture_test(an_address_event_without_a_new_address_has_no_effect)
{
	struct mpib_rail *rail = rail_of(0, 1);

	rail->verbs = &scripted_verbs;
	say(IBV_EVENT_GID_CHANGE);
	pair_turns(&pair, 4);
	assert_int_equal(rail->downs, 0);
	gid_now.raw[15]++;
	say(IBV_EVENT_GID_CHANGE);
	pair_turns(&pair, 4);
	assert_memory_equal(&rail->port.gid, &gid_now, sizeof(gid_now));
	assert_int_equal(rail->downs, 1);
	assert_true(rail->up);
}

fixture_test(a_changed_address_does_not_bring_a_port_up)
{
	struct mpib_soft_fault fault = { .link_down = 1 };
	struct mpib_rail *rail = rail_of(0, 1);

	mpib_soft_set_fault(rail->ctx, &fault);
	pair_turns(&pair, 10);
	assert_false(rail->up);
	rail->verbs = &scripted_verbs;
	gid_now.raw[15]++;
	say(IBV_EVENT_GID_CHANGE);
	pair_turns(&pair, 4);
	assert_memory_equal(&rail->port.gid, &gid_now, sizeof(gid_now));
	assert_false(rail->up);
	assert_int_equal(rail->downs, 1);
}

/* Send the message of one lane so slowly that the control thread handles the
 * next lane only in its next turn. */
static void slow_send(void *ctx, struct mpib_lane *lane,
		      const struct mpib_rail_msg *msg)
{
	usleep(MPIB_RAIL_TURN_NS / 1000 + 1);
}

static void settle(struct mpib_lane *lane)
{
	lane->failover = true;
	mpib_lane_established(lane);
}

fixture_test(a_new_address_stops_lanes_over_several_turns)
{
	struct mpib_engine *e = pair.node[0].engine;
	const struct mpib_engine_events *events = e->events;
	struct mpib_engine_events slow = *events;
	struct pair more;
	struct mpib_lane *lane[2];

	pair_more_lane(&pair, &more);
	lane[0] = pair.node[0].lane;
	lane[1] = more.node[0].lane;
	settle(lane[0]);
	settle(lane[1]);
	slow.lane_send = slow_send;
	e->events = &slow;
	rail_of(0, 1)->verbs = &scripted_verbs;
	gid_now.raw[15]++;
	say(IBV_EVENT_GID_CHANGE);
	pair_turns(&pair, 10);
	e->events = events;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_not_equal(lane[i]->ctl.rail[1].fence.state,
				     MPIB_FENCE_LIVE);
		assert_true(lane[i]->ctl.rail[1].fence.healthy);
		lane[i]->failover = false;
	}
}

/* Check the rail's state in the statistics, and in the port data that new
 * clients get. */
static void told_of_port(bool up, uint64_t mbps)
{
	struct mpib_snapshot *snap = pair_snapshot(&pair, 0);
	struct mpib_port_info port;
	unsigned before = asked;

	assert_int_equal(mpib_engine_port(pair.node[0].engine, 1, &port), 0);
	assert_int_equal(port.state, up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN);
	assert_int_equal(port.speed_mbps, mbps);
	assert_memory_equal(&port.gid, &gid_now, sizeof(gid_now));
	assert_int_equal(snap->rail[1].up, up);
	assert_int_equal(snap->rail[1].speed_mbps, mbps);
	assert_memory_equal(&snap->rail[1].gid, &gid_now, sizeof(gid_now));
	mpib_snapshot_free(snap);
	assert_int_equal(asked, before); /* the HCA was not called */
}

fixture_test(a_new_port_speed_is_reported)
{
	uint64_t full = mbps_now;

	rail_of(0, 1)->verbs = &scripted_verbs;
	told_of_port(true, full);
	say(IBV_EVENT_PORT_ERR);
	pair_turns(&pair, 4);
	told_of_port(false, full);
	mbps_now = full / 2;
	say(IBV_EVENT_PORT_ACTIVE);
	pair_turns(&pair, 4);
	told_of_port(true, full / 2);
	/* Act as if the link was down for a short time and its PORT_ERR event
	 * was missed. */
	mbps_now = full;
	gid_now.raw[15]++;
	say(IBV_EVENT_PORT_ACTIVE);
	pair_turns(&pair, 4);
	told_of_port(true, full);
	say(IBV_EVENT_DEVICE_FATAL);
	pair_turns(&pair, 4);
	assert_int_equal(mpib_engine_port(pair.node[0].engine, 1,
					  &(struct mpib_port_info){ 0 }),
			 -EIO);
}

fixture_test(an_srq_that_runs_low_is_filled_and_armed_again)
{
	struct mpib_tenant *t = pair.node[0].tenant;
	struct mpib_rail *rail = rail_of(0, 1);
	struct ibv_srq_attr attr;

	pair_turns(&pair, 4);
	rail->verbs = &scripted_verbs;
	for (unsigned i = 0; i < 2; i++) {
		attr.srq_limit = 0;
		mpib_verbs_soft.modify_srq(t->srq[1], &attr, IBV_SRQ_LIMIT);
		script[scripted].element.srq = t->srq[1];
		script[scripted++].event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
		pair_turns(&pair, 4);
		assert_int_equal(rail->n.srq_limits, i + 1);
		mpib_verbs_soft.query_srq(t->srq[1], &attr);
		assert_int_equal(attr.srq_limit, pair.cfg.srq_high / 16);
	}
}
