/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/config/rails.c, where a proxy takes over: which devices it has. */
#include <errno.h>
#include <stdio.h>

#include "config/config.h"
#include "test.h"

static struct mpib_config cfg;
static char why[MPIB_WHY_MAX];

static const struct mpib_config_device of_before[2] = {
	{ .name = "0", .sout = "rdma:fake_1:1", .sup = "rdma:fake_0:2" },
	{ .name = "far", .sout = "rdma:fake_3:1", .sup = "rdma:fake_2:1" },
};
static const struct mpib_config_device one_of_before = {
	.name = "0", .sout = "rdma:fake_1:1"
};

/* A proxy of one rail, as if discovery had found it or it had been named. */
static int one_rail(void **state)
{
	mpib_config_init(&cfg);
	snprintf(cfg.sout, sizeof(cfg.sout), "soft:127.41.2.9");
	if (mpib_config_finish(&cfg, why) < 0 || cfg.engine.rails != 1)
		return -1;
	cfg.found = true;
	return 0;
}

static void rails_that_were_chosen_stay_where_a_proxy_takes_over(void **state)
{
	assert_int_equal(
		mpib_config_keep_devices(&cfg, 1, false, of_before, why), 0);
	assert_int_equal(cfg.engine.rails, 2);
	assert_string_equal(cfg.engine.rail[0].name, "fake_1");
	assert_string_equal(cfg.engine.rail[1].name, "fake_0");
	assert_int_equal(cfg.engine.rail[1].port, 2);
	/* Also from two to one. */
	assert_int_equal(
		mpib_config_keep_devices(&cfg, 1, false, &one_of_before, why),
		0);
	assert_int_equal(cfg.engine.rails, 1);
	assert_string_equal(cfg.engine.rail[0].name, "fake_1");
}

static void devices_stay_with_their_names_and_order(void **state)
{
	struct mpib_config_device d;

	assert_int_equal(
		mpib_config_keep_devices(&cfg, 2, false, of_before, why), 0);
	assert_int_equal(cfg.engine.devices, 2);
	assert_int_equal(cfg.engine.rails, 2);
	assert_string_equal(cfg.engine.rail[3].name, "fake_2");
	assert_string_equal(mpib_config_rail_device(&cfg, 2), "far");
	/* What this process would hand over is what it was handed. */
	for (unsigned i = 0; i < 2; i++) {
		mpib_config_device(&cfg, i, &d);
		assert_string_equal(d.name, of_before[i].name);
		assert_string_equal(d.sout, of_before[i].sout);
		assert_string_equal(d.sup, of_before[i].sup);
	}
}

static void what_is_in_reserve_stays_so(void **state)
{
	const uint32_t share = cfg.engine.sup_bw;

	assert_int_equal(
		mpib_config_keep_devices(&cfg, 2, true, of_before, why), 0);
	assert_true(cfg.standby);
	assert_int_equal(cfg.engine.mode, MPIB_MODE_STATIC);
	assert_int_equal(cfg.engine.sup_bw, 0);
	/* And what is not, is not, whatever discovery chose by itself. */
	assert_int_equal(
		mpib_config_keep_devices(&cfg, 2, false, of_before, why), 0);
	assert_false(cfg.standby);
	assert_int_equal(cfg.engine.mode, MPIB_MODE_ADAPTIVE);
	assert_int_equal(cfg.engine.sup_bw, share);
	cfg.mode = MPIB_MODE_ADAPTIVE;
	assert_int_equal(
		mpib_config_keep_devices(&cfg, 2, true, of_before, why),
		-EINVAL);
	assert_non_null(strstr(why, "policy.mode says how to split over both"));
}

static void rails_that_are_named_are_the_ones_named(void **state)
{
	cfg.found = false;
	assert_int_equal(
		mpib_config_keep_devices(&cfg, 1, false, of_before, why), 0);
	assert_int_equal(cfg.engine.rails, 1);
	assert_string_equal(cfg.engine.rail[0].name, "127.41.2.9");
	/* And whoever wants one has one, which is another number. */
	cfg.found = cfg.one_rail = true;
	assert_int_equal(
		mpib_config_keep_devices(&cfg, 1, false, of_before, why), 0);
	assert_int_equal(cfg.engine.rails, 1);
}

#define t(f) cmocka_unit_test_setup(f, one_rail)

const struct CMUnitTest test_list[] = {
	t(rails_that_were_chosen_stay_where_a_proxy_takes_over),
	t(devices_stay_with_their_names_and_order),
	t(what_is_in_reserve_stays_so),
	t(rails_that_are_named_are_the_ones_named),
	{ 0 },
};
