/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/lane on RDMA devices: the attributes of a QP that depend on its peer.
 * Two engines use devices of fake_ibv.h.
 */
#include <errno.h>
#include <mpib/wire.h>

#include "engine/lane/lane.h"
#include "fake_ibv.h"
#include "test.h"

static struct mpib_engine_config cfg;
static struct fake_device *dev[2];
static struct mpib_engine *engine[2];
static struct mpib_tenant *tenant[2];
static struct mpib_lane *lane[2];
static struct mpib_lane_info info[2];
static char why[300];

static int setup(void **state)
{
	fake_ibv_reset();
	dev[0] = fake_ibv_add("fake_0", "127.41.3.1");
	dev[1] = fake_ibv_add("fake_1", "127.41.3.2");
	dev[0]->port[0].attr.pkey_tbl_len = 8;
	dev[1]->port[0].attr.pkey_tbl_len = 8;
	mpib_engine_config_init(&cfg);
	cfg.rails = 1;
	return 0;
}

static int teardown(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		if (lane[i])
			mpib_lane_free(lane[i]);
		lane[i] = NULL;
		if (engine[i])
			mpib_engine_close(engine[i]);
		engine[i] = NULL;
	}
	return 0;
}

static void open_engines(void)
{
	for (unsigned i = 0; i < 2; i++) {
		const char *name = i ? "rdma:fake_1" : "rdma:fake_0";

		assert_int_equal(mpib_rail_spec_parse(name, &cfg.rail[0], why,
						      sizeof(why)),
				 0);
		if (mpib_engine_open_idle(&cfg, NULL, NULL, &engine[i], why,
					  sizeof(why)) < 0)
			fail_msg("%s", why);
		assert_int_equal(mpib_tenant_get(engine[i], 0, 0, &tenant[i]),
				 0);
	}
}

/* Create a lane at both ends. Engine 0 is the opener. */
static void make_lanes(uint8_t class)
{
	assert_int_equal(mpib_lane_create(tenant[0], MPIB_IMM_V2,
					  MPIB_PATH_INTRA, NULL, &lane[0]),
			 0);
	mpib_lane_set_class(lane[0], class);
	mpib_lane_local(lane[0], &info[0]);
	assert_int_equal(mpib_lane_create(tenant[1], 0, MPIB_PATH_INTRA,
					  &info[0], &lane[1]),
			 0);
	mpib_lane_set_class(lane[1], class);
}

/* Connect both ends. fake_ibv keeps only the attributes of the last QP, so the
 * opener connects last. */
static int try_connect(void)
{
	int rc = mpib_lane_connect(lane[1], &info[0], why, sizeof(why));

	if (rc < 0)
		return rc;
	mpib_lane_local(lane[1], &info[1]);
	rc = mpib_lane_connect(lane[0], &info[1], why, sizeof(why));
	return rc;
}

static void connect_lanes(void)
{
	if (try_connect() < 0)
		fail_msg("%s", why);
}

static void connected_with(uint8_t class)
{
	open_engines();
	make_lanes(class);
	connect_lanes();
}

static const struct ibv_ah_attr *ah(void)
{
	return &fake_ibv.rtr.ah_attr;
}

/* A teardown. Do not free connected lanes: the shard that has them frees them
 * when the engine is closed. */
static int forget(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		if (lane[i] && lane[i]->connected)
			lane[i] = NULL;
	}
	return teardown(state);
}

#define CASE(name) TEST_OF(name, setup, forget)

CASE(a_roce_qp_has_a_gid_and_a_traffic_class)
{
	cfg.traffic_class = 104;
	connected_with(0);
	assert_true(ah()->is_global);
	assert_int_equal(ah()->grh.sgid_index, 1);
	assert_memory_equal(ah()->grh.dgid.raw, dev[1]->port[0].gid[1].gid.raw,
			    16);
	assert_int_equal(ah()->grh.traffic_class, 104);
	assert_int_equal(ah()->sl, 0);
	assert_int_equal(fake_ibv.init.port_num, 1);
}

CASE(a_communicators_class_overrides_the_setting)
{
	cfg.traffic_class = 104;
	connected_with(96);
	assert_int_equal(ah()->grh.traffic_class, 96);
	/* on RoCE, the traffic class sets the SL */
	assert_int_equal(ah()->sl, 0);
}

CASE(an_infiniband_qp_has_a_lid_within_a_subnet)
{
	fake_ibv_make_ib(dev[0], 7);
	fake_ibv_make_ib(dev[1], 9);
	cfg.pkey_index = 3;
	connected_with(5);
	assert_false(ah()->is_global);
	assert_int_equal(ah()->dlid, 9);
	assert_int_equal(ah()->sl, 5);
	assert_int_equal(fake_ibv.init.pkey_index, 3);
}

CASE(a_configured_service_level_is_used)
{
	fake_ibv_make_ib(dev[0], 7);
	fake_ibv_make_ib(dev[1], 9);
	cfg.service_level = 2;
	connected_with(5);
	assert_int_equal(ah()->sl, 2);
}

/* Put a router between the two ends. The software HCA below the fake device
 * cannot reach the other subnet, so check only the attributes of the QP. */
static void connect_to_subnet(uint8_t flid, unsigned dlid)
{
	uint8_t *gid = dev[1]->port[0].gid[0].gid.raw;

	fake_ibv_make_ib(dev[0], 7);
	fake_ibv_make_ib(dev[1], 9);
	gid[0] = 0xfe;
	gid[4] = flid ? 1 : 0;
	gid[5] = flid;
	open_engines();
	make_lanes(0);
	mpib_lane_local(lane[1], &info[1]);
	assert_true(mpib_lane_connect(lane[0], &info[1], why, sizeof(why)) < 0);
	assert_true(ah()->is_global);
	assert_int_equal(ah()->dlid, dlid);
	assert_memory_equal(ah()->grh.dgid.raw, gid, 16);
}

CASE(another_subnet_is_reached_by_its_flid)
{
	connect_to_subnet(0x22, 0x122);
}

CASE(another_subnet_without_an_flid_is_reached_by_the_lid)
{
	connect_to_subnet(0, 9);
}

CASE(infiniband_uses_a_grh_if_the_port_requires_it)
{
	fake_ibv_make_ib(dev[0], 7);
	fake_ibv_make_ib(dev[1], 9);
	dev[0]->port[0].attr.flags = IBV_QPF_GRH_REQUIRED;
	connected_with(0);
	assert_true(ah()->is_global);
}

CASE(a_qp_has_the_timers_of_the_settings_and_the_smaller_mtu)
{
	dev[1]->port[0].attr.active_mtu = IBV_MTU_1024;
	cfg.timeout = 17;
	cfg.retry_cnt = 5;
	connected_with(0);
	assert_int_equal(fake_ibv.rtr.path_mtu, IBV_MTU_1024);
	assert_int_equal(fake_ibv.rts.timeout, 17);
	assert_int_equal(fake_ibv.rts.retry_cnt, 5);
	assert_int_equal(fake_ibv.rts.rnr_retry, 7);
	assert_int_equal(fake_ibv.rtr.min_rnr_timer, 12);
}

CASE(a_gid_that_moved_since_the_start_is_found)
{
	open_engines();
	for (unsigned i = 0; i < 2; i++) {
		dev[i]->port[0].gids = 0;
		fake_ibv_add_gid(dev[i], 1, "fe80::1", IBV_GID_TYPE_ROCE_V1);
		fake_ibv_add_gid(dev[i], 1, "fe80::1", IBV_GID_TYPE_ROCE_V2);
		fake_ibv_add_gid(dev[i], 1, dev[i]->soft, IBV_GID_TYPE_ROCE_V2);
	}
	make_lanes(0);
	connect_lanes();
	assert_int_equal(ah()->grh.sgid_index, 2);
}

CASE(the_error_of_a_qp_names_the_device_and_the_cause)
{
	open_engines();
	make_lanes(0);
	fake_ibv_fails("RTR", ETIMEDOUT, 1);
	assert_int_equal(try_connect(), -ETIMEDOUT);
	assert_in(why, "rdma:fake_1:1: ibv_modify_qp: ");
	assert_in(why, "RoCE address does not answer");
}

CASE(the_error_of_a_lane_names_the_device_and_the_cause)
{
	static const struct {
		const char *call;
		int error;
		const char *cause;
	} row[] = {
		{ "ibv_create_qp", ENOMEM, "RLIMIT_MEMLOCK" },
		{ "INIT", EINVAL, "partition key" },
	};
	struct mpib_lane *l;
	const char *text;

	open_engines();
	for (unsigned i = 0; i < 2; i++) {
		fake_ibv_fails(row[i].call, row[i].error, 1);
		assert_int_equal(mpib_lane_create(tenant[1], MPIB_IMM_V2,
						  MPIB_PATH_INTRA, NULL, &l),
				 -row[i].error);
		text = mpib_engine_last_error(engine[1], -row[i].error);
		assert_in(text, "rdma:fake_1:1: ibv_");
		assert_in(text, row[i].cause);
		/* The text must be returned only once. */
		assert_string_equal(
			mpib_engine_last_error(engine[1], -row[i].error),
			strerror(row[i].error));
	}
}

CASE(the_error_for_a_new_tenant_names_the_call_that_failed)
{
	static const char *const call[] = { "ibv_alloc_pd", "ibv_create_srq" };
	struct mpib_tenant *t;

	open_engines();
	for (unsigned i = 0; i < 2; i++) {
		fake_ibv_fails(call[i], ENOMEM, 1);
		assert_int_equal(mpib_tenant_get(engine[0], 0, 77, &t),
				 -ENOMEM);
		assert_in(mpib_engine_last_error(engine[0], -ENOMEM), call[i]);
	}
}

CASE(ends_with_different_link_layers_do_not_connect)
{
	fake_ibv_make_ib(dev[0], 7);
	open_engines();
	make_lanes(0);
	assert_int_equal(try_connect(), -EPROTO);
	assert_in(why, "InfiniBand");
	assert_in(why, "Ethernet");
}

CASE(both_ends_agree_on_ece_options)
{
	fake_ibv.ece = true;
	open_engines();
	make_lanes(0);
	assert_true(info[0].rail[0].ece);
	assert_int_equal(info[0].rail[0].ece_vendor[1], 0x15b3);
	assert_int_equal(info[0].rail[0].ece_options[1], 3);
	/* The opener supports fewer options. */
	info[0].rail[0].ece_options[1] = 1;
	connect_lanes();
	/* The acceptor's second QP must offer only the common options. */
	assert_true(info[1].rail[0].ece);
	assert_int_equal(info[1].rail[0].ece_options[1], 1);
	assert_int_equal(fake_ibv.ece_sets, 4);
	assert_int_equal(fake_ibv.set.options, 1);
}

CASE(ece_is_not_used_with_an_end_without_it)
{
	fake_ibv.ece = true;
	open_engines();
	make_lanes(0);
	info[0].rail[0].ece = false;
	connect_lanes();
	assert_false(info[1].rail[0].ece);
	assert_int_equal(fake_ibv.ece_sets, 0);
}

CASE(ece_that_the_device_refuses_is_not_used)
{
	fake_ibv.ece = true;
	open_engines();
	make_lanes(0);
	fake_ibv_fails("ibv_set_ece", EINVAL, 1);
	connect_lanes();
	assert_false(info[1].rail[0].ece);
}

CASE(without_the_setting_ece_is_not_offered)
{
	fake_ibv.ece = true;
	cfg.ece = 0;
	connected_with(0);
	assert_false(info[0].rail[0].ece);
	assert_int_equal(fake_ibv.ece_sets, 0);
}
