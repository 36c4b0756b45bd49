/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of an engine with several devices. Each device has its own rails and
 * shards. A lane may connect any two devices. The state of a rail affects only
 * its device.
 */
#include <errno.h>

#include "engine/lane/lane.h"
#include "engine_pair.h"
#include "test.h"
#include "verbs/soft/soft.h"

#define LEN (1u << 20)

/* The pair `home` is on device 0 of both nodes. The pair `away` is on a device
 * that the test chooses. */
static struct pair home, away;

static void open_devices(unsigned devices, unsigned shards)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	cfg.devices = devices;
	cfg.shards = shards;
	pair_open(&home, &cfg, MPIB_IMM_V2);
}

static void join(unsigned a, unsigned b)
{
	pair_join_on(&home, &away, 1, a, b);
}

static void close_all(void)
{
	pair_close(&home);
	pair_leave(&away);
}

static void send_one(struct pair *p, unsigned seed)
{
	struct pair_end tx, rx;

	pair_connect(p, seed, 0, &tx, &rx);
	pair_transfer(p, &tx, &rx, 0, LEN, LEN, seed);
}

/* Return the bytes that the node has sent over this rail. */
static uint64_t sent(unsigned node, unsigned rail)
{
	struct mpib_snapshot *snap = pair_snapshot(&home, node);
	uint64_t bytes = snap->rail[rail].n.tx_bytes;

	assert_int_equal(mpib_snap_rails(snap), 2 * home.cfg.devices);
	mpib_snapshot_free(snap);
	return bytes;
}

static uint64_t received(unsigned node, unsigned rail)
{
	struct mpib_snapshot *snap = pair_snapshot(&home, node);
	uint64_t bytes = snap->rail[rail].n.rx_bytes;

	mpib_snapshot_free(snap);
	return bytes;
}

TEST(each_device_carries_the_bytes_of_its_clients)
{
	open_devices(2, 1);
	join(1, 1);
	send_one(&away, 0);
	assert_int_equal(sent(0, 0) + sent(0, 1), 0);
	assert_int_equal(sent(0, 2), LEN / 2);
	assert_int_equal(sent(0, 3), LEN / 2);
	send_one(&home, 1);
	assert_int_equal(sent(0, 0) + sent(0, 1), LEN);
	assert_int_equal(sent(0, 2) + sent(0, 3), LEN);
	close_all();
}

TEST(a_lane_can_join_different_devices_of_two_nodes)
{
	open_devices(3, 1);
	join(2, 1);
	send_one(&away, 0);
	assert_int_equal(sent(0, 4) + sent(0, 5), LEN);
	assert_int_equal(received(1, 2) + received(1, 3), LEN);
	close_all();
}

TEST(the_number_of_a_shard_determines_its_device)
{
	open_devices(2, 2);
	assert_int_equal(mpib_engine_shards(home.node[0].engine), 4);
	join(3, 1);
	send_one(&away, 0);
	assert_int_equal(sent(0, 2) + sent(0, 3), LEN);
	assert_int_equal(received(1, 0) + received(1, 1), LEN);
	close_all();
}

TEST(sixteen_devices_work)
{
	struct mpib_snapshot *snap;

	open_devices(MPIB_DEVICES_MAX, 1);
	join(15, 15);
	send_one(&away, 0);
	assert_int_equal(sent(0, 30) + sent(0, 31), LEN);
	snap = pair_snapshot(&home, 0);
	for (unsigned i = 0; i < snap->shards; i++)
		assert_int_equal(mpib_snap_device(snap, i), i);
	for (unsigned r = 0; r < mpib_snap_rails(snap); r++)
		assert_true(snap->rail[r].up);
	mpib_snapshot_free(snap);
	/* Rail 31 has the highest bit in masks of rails. */
	assert_int_equal(mpib_engine_drain(home.node[0].engine, 31, true), 0);
	assert_int_equal(mpib_engine_drained(home.node[0].engine), 1u << 31);
	close_all();
}

TEST(a_drain_affects_one_device)
{
	struct mpib_engine *e;

	open_devices(2, 1);
	join(1, 1);
	e = home.node[0].engine;
	mpib_lane_established(home.node[0].lane);
	assert_int_equal(mpib_engine_drain(e, 3, true), 0);
	assert_int_equal(mpib_engine_drain(e, 2, true), -EBUSY);
	assert_int_equal(mpib_engine_drain(e, 0, true), 0);
	assert_int_equal(mpib_engine_drain(e, 1, true), -EBUSY);
	assert_int_equal(mpib_engine_drained(e), 1u << 3 | 1u << 0);
	/* Each lane must learn that a rail of its device is drained. */
	mpib_lane_established(away.node[0].lane);
	pair_turns(&home, 8);
	assert_int_equal(home.node[0].lane->drain, 1u << MPIB_RAIL_SOUT);
	assert_int_equal(away.node[0].lane->drain, 1u << MPIB_RAIL_SUP);
	close_all();
}

/* The agent names SOUT or SUP of all devices. The operator's drains come first,
 * and each device keeps a rail. */
TEST(sick_rails_are_drained_except_the_last_rail_of_a_device)
{
	struct mpib_engine *e;

	open_devices(2, 1);
	e = home.node[0].engine;
	assert_int_equal(mpib_engine_drain(e, 2, true), 0);
	mpib_engine_drain_sick(e, 1u << MPIB_RAIL_SUP);
	assert_int_equal(mpib_engine_drained(e), 1u << 2 | 1u << 1);
	assert_int_equal(mpib_engine_drained_sick(e), 1u << 1);
	assert_int_equal(mpib_engine_drain(e, 0, true), 0);
	assert_int_equal(mpib_engine_drained(e), 1u << 2 | 1u << 0);
	assert_int_equal(mpib_engine_drain(e, 0, false), 0);
	assert_int_equal(mpib_engine_drain(e, 2, false), 0);
	assert_int_equal(mpib_engine_drained_sick(e), 1u << 3 | 1u << 1);
	/* A rail that both drain is the operator's. */
	assert_int_equal(mpib_engine_drain(e, 3, true), 0);
	assert_int_equal(mpib_engine_drained_sick(e), 1u << 1);
	mpib_engine_drain_sick(e, 3);
	assert_int_equal(mpib_engine_drained(e), 1u << 3);
	mpib_engine_drain_sick(e, 0);
	assert_int_equal(mpib_engine_drained(e), 1u << 3);
	pair_close(&home);
}

TEST(a_down_port_affects_one_device)
{
	struct mpib_soft_fault fault = { .link_down = 1 };
	struct mpib_engine *e;

	open_devices(2, 1);
	join(1, 1);
	e = home.node[0].engine;
	mpib_soft_set_fault(e->shard[1].rail[0].ctx, &fault);
	pair_turns(&home, 8);
	assert_false(e->rail_up[2]);
	assert_true(e->rail_up[0] && e->rail_up[1] && e->rail_up[3]);
	send_one(&home, 0);
	fault.link_down = 0;
	mpib_soft_set_fault(e->shard[1].rail[0].ctx, &fault);
	pair_turns(&home, 8);
	assert_true(e->rail_up[2]);
	close_all();
}

TEST(each_rail_number_has_its_own_port)
{
	struct mpib_port_info port[4];

	open_devices(2, 1);
	join(0, 0);
	for (unsigned r = 0; r < 4; r++) {
		assert_int_equal(
			mpib_engine_port(home.node[0].engine, r, &port[r]), 0);
		for (unsigned i = 0; i < r; i++)
			assert_memory_not_equal(&port[r].gid, &port[i].gid,
						sizeof(port[r].gid));
	}
	close_all();
}
