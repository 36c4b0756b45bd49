/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/config/rails.c: the devices that device.layout makes of HCAs that no
 * section names. The test begins with the device list of libibverbs. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "config/config.h"
#include "fake_ibv.h"
#include "scratch.h"
#include "test.h"

static struct mpib_config cfg;
static char why[MPIB_WHY_MAX];
static char name[8][8], addr[8][16];

static void found(unsigned n)
{

	fake_ibv_reset();
	mpib_config_init(&cfg);
	for (unsigned i = 0; i < n; i++) {
		struct fake_device *d;

		snprintf(name[i], sizeof(name[i]), "fake_%u", i % 10);
		snprintf(addr[i], sizeof(addr[i]), "127.41.3.%u", i % 10 + 1);
		d = fake_ibv_add(name[i], addr[i]);
		d->attr.sys_image_guid = i + 1;
		/* The scratch directory contains an entry "device", like the
		 * sysfs directory of real hardware. */
		snprintf(d->ibv.ibdev_path, sizeof(d->ibv.ibdev_path), "%s",
			 scratch);
	}
}

static int make_dir(void **state)
{
	if (scratch_make(state))
		return -1;
	return symlink("/", scratch_path("device"));
}

static void set(const char *section, const char *key, const char *value)
{
	assert_int_equal(mpib_config_set(&cfg, mpib_config_find(section, key),
					 value, "the test", why),
			 0);
}

static void finish(unsigned devices, unsigned rails, bool standby)
{
	if (mpib_config_finish(&cfg, why) < 0)
		fail_msg("%s", why);
	assert_int_equal(cfg.engine.devices, devices);
	assert_int_equal(cfg.engine.rails, rails);
	assert_int_equal(cfg.standby, standby);
}

static void expect_rail(unsigned rail, const char *hca)
{
	assert_string_equal(cfg.engine.rail[rail].name, hca);
}

static void expect_why(const char *text)
{
	assert_string_equal(cfg.why_devices, text);
}

TEST(two_hcas_become_one_device)
{
	found(2);
	finish(1, 2, false);
	expect_rail(0, "fake_0");
	expect_rail(1, "fake_1");
	expect_why("found: pairs of 2 HCAs (there are no more)");
	assert_int_equal(cfg.engine.mode, MPIB_MODE_ADAPTIVE);
}

TEST(each_of_eight_hcas_is_a_device_with_a_standby_neighbour)
{
	found(8);
	finish(8, 2, true);
	for (unsigned i = 0; i < 8; i++) {
		expect_rail(2 * i, name[i]);
		expect_rail(2 * i + 1, name[i ^ 1]);
	}
	expect_why("found: each of 8 HCAs, its neighbour in reserve (there are "
		   "more than two)");
	assert_int_equal(cfg.engine.mode, MPIB_MODE_STATIC);
	assert_int_equal(cfg.engine.sup_bw, 0);
}

TEST(hcas_are_paired_if_a_setting_needs_pairs)
{
	static const char *const said[][3] = {
		{ "device", "layout", "fused" },
		{ "policy", "mode", "adaptive" },
		{ "sup", "bw", "512" },
		{ "island", "prefix", "24" },
		{ "proxy", "threads", "4" },
	};

	for (unsigned i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		found(8);
		set(said[i][0], said[i][1], said[i][2]);
		finish(4, 2, false);
		expect_rail(6, "fake_6");
		expect_rail(7, "fake_7");
	}
	expect_why("found: pairs of 8 HCAs (proxy.threads allows no more "
		   "devices)");
}

TEST(an_odd_hca_is_used_alone_or_not_at_all)
{
	found(5);
	finish(5, 2, true);
	expect_rail(8, "fake_4");
	expect_rail(9, "fake_0");
	found(5);
	set("device", "layout", "fused");
	finish(2, 2, false);
}

TEST(without_sup_no_hca_is_on_standby)
{
	found(3);
	set("hca", "sup", "none");
	finish(3, 1, false);
	expect_why("found: each of 3 HCAs (there are more than two)");
	/* Without fail-over, no HCA is on standby either. */
	found(3);
	set("failover", "enable", "no");
	finish(3, 1, false);
	found(2);
	fake_ibv.device[1].port[0].attr.active_width = 4; /* 8X */
	set("hca", "sup", "none");
	finish(1, 1, false);
	expect_rail(0, "fake_1");
}

static void name_two(const char *layout)
{
	found(0);
	set("hca", "sout", "soft:127.41.3.1");
	set("hca", "sup", "soft:127.41.3.2");
	set("device", "layout", layout);
}

TEST(two_named_hcas_can_be_two_devices)
{
	name_two("each");
	finish(2, 2, true);
	expect_rail(1, "127.41.3.2");
	expect_rail(2, "127.41.3.2");
	expect_rail(3, "127.41.3.1");
	expect_why("the test: each of 2 HCAs, its neighbour in reserve (the "
		   "test)");
	name_two("auto");
	finish(1, 2, false);
	assert_int_equal(cfg.engine.mode, MPIB_MODE_ADAPTIVE);
	assert_int_not_equal(cfg.engine.sup_bw, 0);
}

static void refused(const char *text)
{
	assert_int_equal(mpib_config_finish(&cfg, why), -EINVAL);
	assert_in(why, text);
}

TEST(settings_that_contradict_the_layout_are_refused)
{
	found(1);
	set("device", "layout", "each");
	refused("device.layout = each, but there is one HCA (omit it)");
	found(8);
	set("device", "layout", "fused");
	set("hca", "sup", "none");
	refused("hca.sup = none leaves no pair");
	found(8);
	set("device", "layout", "each");
	set("policy", "mode", "vanilla");
	refused("policy.mode splits messages over both (remove it, or set "
		"device.layout = fused)");
	found(8);
	set("device", "layout", "each");
	set("proxy", "threads", "4");
	refused("proxy.threads = 4 for each of 8 devices");
	found(0);
	set("device", "layout", "each");
	mpib_config_device_flag(&cfg, "soft:127.41.3.1,soft:127.41.3.2", why);
	refused("the test: device.layout is for HCAs that no setting names, "
		"but flag --device names a device (give one or the other)");
}

/* With standby rails, SUP's share is 0 by default. So this setting changes
 * nothing. */
TEST(a_share_of_0_does_not_contradict_the_layout)
{
	found(8);
	set("policy", "mode", "static");
	set("sup", "bw", "0");
	finish(8, 2, true);
}

struct test_group test_group = { make_dir, scratch_remove };
