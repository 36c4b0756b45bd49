/* SPDX-License-Identifier: Apache-2.0 */
/* engine/lane/qps.c: the route to InfiniBand ports of this subnet and others. */
#include "engine/lane/lane.h"
#include "test.h"

static struct mpib_shard shard;
static struct mpib_lane lane = { .shard = &shard };
static struct mpib_engine *engine;
static struct mpib_port_info port;
static struct mpib_lane_rail_info remote;
static struct ibv_ah_attr ah;

/* A prefix as subnet managers of routed fabrics make it. */
static void prefix(uint8_t *gid, uint8_t flid, uint8_t subnet)
{
	memset(gid, 0, 16);
	gid[0] = 0xfe;
	gid[1] = 0x80;
	gid[4] = 0x01;
	gid[5] = flid;
	gid[7] = subnet;
}

static int setup(void **state)
{
	engine = calloc(1, sizeof(*engine));
	mpib_engine_config_init(&engine->cfg);
	shard.engine = engine;
	memset(&port, 0, sizeof(port));
	memset(&remote, 0, sizeof(remote));
	port.link_layer = remote.link_layer = IBV_LINK_LAYER_INFINIBAND;
	port.gid_index = 1;
	port.lid = 7;
	remote.lid = 9;
	prefix(port.gid.raw, 0x11, 1);
	return 0;
}

static int teardown(void **state)
{
	free(engine);
	return 0;
}

static void fill(void)
{
	mpib_route_fill(&lane, &shard.rail[0], &port, &remote, &ah);
}

fixture_test(another_subnet_is_reached_by_its_flid)
{
	prefix(remote.gid, 0x22, 2);
	fill();
	assert_true(ah.is_global);
	assert_int_equal(ah.dlid, 0x122);
	assert_int_equal(ah.grh.sgid_index, 1);
	assert_memory_equal(ah.grh.dgid.raw, remote.gid, 16);
}

fixture_test(without_an_flid_the_lid_has_to_do)
{
	prefix(remote.gid, 0, 2);
	remote.gid[4] = 0;
	fill();
	assert_true(ah.is_global);
	assert_int_equal(ah.dlid, 9);
}

fixture_test(in_one_subnet_the_flid_counts_for_nothing)
{
	prefix(remote.gid, 0x22, 1);
	fill();
	assert_false(ah.is_global);
	assert_int_equal(ah.dlid, 9);
}

fixture_test(another_fabric_is_another_subnet)
{
	prefix(remote.gid, 0x22, 1);
	remote.gid[1] = 0xc0;
	fill();
	assert_true(ah.is_global);
}

fixture_test(roce_has_no_flid)
{
	port.link_layer = IBV_LINK_LAYER_ETHERNET;
	prefix(remote.gid, 0x22, 2);
	remote.lid = 0;
	fill();
	assert_true(ah.is_global);
	assert_int_equal(ah.dlid, 0);
}
