/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma/rdma.c over fake devices: the speed of a port, and the GID that a query
 * returns.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "fake_ibv.h"
#include "scratch.h"
#include "test.h"
#include "verbs/rdma/rdma.h"

static const struct mpib_verbs *const v = &mpib_verbs_rdma;
static const struct mpib_rail_spec spec = { .provider = MPIB_PROVIDER_RDMA,
					    .name = "fake_0",
					    .port = 1 };
static struct fake_device *dev;
static struct ibv_context *ctx;
static struct mpib_port_info info;

static int setup(void **state)
{
	fake_ibv_reset();
	dev = fake_ibv_add("fake_0", "127.41.0.1");
	dev->port[0].gids = 0;
	return v->open(&spec, &ctx);
}

static int teardown(void **state)
{
	char why[64];

	mpib_rdma_prefer_nets("", why, sizeof(why));
	return v->close(ctx);
}

static void add(const char *addr, enum ibv_gid_type type)
{
	fake_ibv_add_gid(dev, 1, addr, type);
}

static void expect(const char *addr, unsigned index)
{
	char text[INET6_ADDRSTRLEN];

	assert_int_equal(v->query_port(ctx, 1, &info), 0);
	inet_ntop(AF_INET6, info.gid.raw, text, sizeof(text));
	assert_string_equal(text, addr);
	assert_int_equal(info.gid_index, index);
	assert_int_equal(info.gid_type, IBV_GID_TYPE_ROCE_V2);
}

fixture_test(a_roce_v2_gid_with_an_ipv4_address_is_preferred)
{
	add("10.0.0.1", IBV_GID_TYPE_ROCE_V1);
	add("fe80::1", IBV_GID_TYPE_ROCE_V2);
	expect("fe80::1", 1);
	add("2001:db8::1", IBV_GID_TYPE_ROCE_V2);
	expect("2001:db8::1", 2);
	add("10.0.0.1", IBV_GID_TYPE_ROCE_V2);
	expect("::ffff:10.0.0.1", 3);
	add("10.0.0.2", IBV_GID_TYPE_ROCE_V2);
	expect("::ffff:10.0.0.1", 3);
}

fixture_test(a_gid_in_a_preferred_network_comes_first)
{
	char why[128];

	add("10.0.0.1", IBV_GID_TYPE_ROCE_V2);
	add("10.7.0.1", IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(mpib_rdma_prefer_nets("192.168.0.0/16,10.7.0.0/16",
					       why, sizeof(why)),
			 0);
	expect("::ffff:10.7.0.1", 1);
	/* If no GID is in the networks, another GID is used. */
	dev->port[0].gids = 1;
	expect("::ffff:10.0.0.1", 0);
}

fixture_test(an_active_port_without_a_gid_is_an_error)
{
	add("10.0.0.1", IBV_GID_TYPE_ROCE_V1);
	assert_int_equal(v->query_port(ctx, 1, &info), -EADDRNOTAVAIL);
	/* If the port is down, the missing GID is no error, and the query
	 * reports that the port is down. */
	dev->port[0].attr.state = IBV_PORT_DOWN;
	assert_int_equal(v->query_port(ctx, 1, &info), 0);
	assert_int_equal(info.state, IBV_PORT_DOWN);
}

fixture_test(the_ports_of_a_device_may_have_tables_of_different_lengths)
{
	dev->attr.phys_port_cnt = 2;
	dev->port[0].attr.gid_tbl_len = 1;
	add("2001:db8::1", IBV_GID_TYPE_ROCE_V2);
	/* These GIDs would be preferred if they were of the same port. */
	fake_ibv_add_gid(dev, 2, "10.0.0.2", IBV_GID_TYPE_ROCE_V2);
	fake_ibv_add_gid(dev, 2, "10.0.0.3", IBV_GID_TYPE_ROCE_V2);
	expect("2001:db8::1", 0);
}

fixture_test(infiniband_has_the_gid_at_index_0_and_a_lid)
{
	fake_ibv_make_ib(dev, 77);
	dev->port[0].attr.flags = IBV_QPF_GRH_REQUIRED;
	assert_int_equal(v->query_port(ctx, 1, &info), 0);
	assert_int_equal(info.link_layer, IBV_LINK_LAYER_INFINIBAND);
	assert_int_equal(info.lid, 77);
	assert_int_equal(info.gid_index, 0);
	assert_int_equal(info.gid_type, IBV_GID_TYPE_IB);
	assert_true(info.grh_required);
}

fixture_test(infiniband_between_routers_has_the_gid_with_the_flid)
{
	fake_ibv_make_ib(dev, 77);
	fake_ibv_add_gid(dev, 1, "fe80:0:0:2::1", IBV_GID_TYPE_IB);
	assert_int_equal(v->query_port(ctx, 1, &info), 0);
	assert_int_equal(info.gid_index, 0);
	dev->port[0].gid[1].gid.raw[5] = 0x22;
	assert_int_equal(v->query_port(ctx, 1, &info), 0);
	assert_int_equal(info.gid_index, 1);
	assert_int_equal(info.gid.raw[5], 0x22);
	assert_int_equal(info.lid, 77);
}

fixture_test(the_speed_is_the_width_times_the_lane_speed)
{
	static const struct {
		uint8_t width, speed;
		uint64_t mbps;
	} row[] = {
		{ 1, 1, 2500 },	   { 2, 4, 40000 },    { 2, 8, 40000 },
		{ 2, 16, 56000 },  { 2, 32, 100000 },  { 16, 64, 100000 },
		{ 2, 64, 200000 }, { 2, 128, 400000 }, { 8, 1, 30000 },
		{ 4, 2, 40000 },
	};

	add("10.0.0.1", IBV_GID_TYPE_ROCE_V2);
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		dev->port[0].attr.active_width = row[i].width;
		dev->port[0].attr.active_speed = row[i].speed;
		assert_int_equal(v->query_port(ctx, 1, &info), 0);
		assert_int_equal(info.speed_mbps, row[i].mbps);
	}
}

/* Use the scratch directory as the device's sysfs. */
static void give_sysfs(void)
{
	scratch_make(NULL);
	snprintf(dev->ibv.ibdev_path, sizeof(dev->ibv.ibdev_path), "%s",
		 scratch);
}

fixture_test(values_that_verbs_do_not_report_are_read_from_sysfs)
{
	add("10.0.0.1", IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(v->query_port(ctx, 1, &info), 0);
	assert_int_equal(info.numa_node, -1);
	assert_string_equal(info.pci_path, "");

	give_sysfs();
	scratch_write("device/numa_node", "1\n");
	scratch_write("ports/1/rate", "800 Gb/sec (4X XDR)\n");
	dev->port[0].attr.active_speed = 0;
	assert_int_equal(v->query_port(ctx, 1, &info), 0);
	assert_int_equal(info.speed_mbps, 800000);
	assert_int_equal(info.numa_node, 1);
	assert_in(info.pci_path, scratch);
	assert_int_equal(scratch_remove(NULL), 0);
}

/* A device that is shared by network namespaces lists the GIDs of all
 * namespaces. */
fixture_test(a_gid_of_an_interface_of_this_namespace_comes_first)
{
	give_sysfs();
	scratch_write("ports/1/gid_attrs/ndevs/0", "not-here\n");
	scratch_write("ports/1/gid_attrs/ndevs/1", "lo\n");
	scratch_write("ports/1/gid_attrs/ndevs/2", "lo\n");
	add("10.0.0.1", IBV_GID_TYPE_ROCE_V2);
	/* Without a GID of this namespace, another GID is used. */
	expect("::ffff:10.0.0.1", 0);
	add("fe80::1", IBV_GID_TYPE_ROCE_V2);
	expect("fe80::1", 1);
	/* Another namespace may have an interface of the same name. */
	add("10.0.0.2", IBV_GID_TYPE_ROCE_V2);
	expect("fe80::1", 1);
	scratch_write("ports/1/gid_attrs/ndevs/3", "lo\n");
	add("127.0.0.1", IBV_GID_TYPE_ROCE_V2);
	expect("::ffff:127.0.0.1", 3);
	assert_int_equal(scratch_remove(NULL), 0);
}
