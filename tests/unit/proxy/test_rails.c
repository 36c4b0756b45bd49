/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/rails: which ports are used if no port is named, and the text that
 * describes a port. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "config/config.h"
#include "fake_ibv.h"
#include "rails/discover.h"
#include "scratch.h"
#include "test.h"
#include "verbs/hca/hca.h"

/* Time in which healthy devices must answer while another device hangs. The
 * time is long, because the machine may be busy. */
#define HANGS_MS 4000

#define IB IBV_LINK_LAYER_INFINIBAND
#define ETH IBV_LINK_LAYER_ETHERNET

TEST(a_numa_node_is_near_itself_and_near_an_unknown_node)
{
	assert_int_equal(mpib_numa_distance(0, 0), 10);
	assert_int_equal(mpib_numa_distance(-1, 3), 10);
	assert_true(mpib_numa_distance(0, 70000) > 10);
	mpib_numa_forget();
	assert_true(mpib_numa_distance(70001, 0) > 10);
	mpib_numa_forget();
}

TEST(a_port_is_described_with_the_words_of_ibv_devinfo)
{
	struct mpib_port_info info = { .speed_mbps = 400000,
				       .link_layer = IB,
				       .state = IBV_PORT_ACTIVE,
				       .numa_node = 1,
				       .lid = 12,
				       .mtu = IBV_MTU_4096 };
	char line[256];

	inet_pton(AF_INET6, "fe80::1", info.gid.raw);
	mpib_rail_describe("SOUT", "rdma:a:1", &info, line, sizeof(line));
	assert_string_equal(line, "rail SOUT rdma:a:1: active, InfiniBand, "
				  "400 Gb/s, MTU 4096, LID 12, GID 0 fe80::1, "
				  "NUMA node 1");
	info = (struct mpib_port_info){ .link_layer = ETH,
					.state = IBV_PORT_DOWN,
					.speed_mbps = 2500,
					.mtu = IBV_MTU_1024,
					.gid_index = 3,
					.gid_type = IBV_GID_TYPE_ROCE_V2,
					.numa_node = -1 };
	inet_pton(AF_INET6, "::ffff:10.0.0.1", info.gid.raw);
	mpib_rail_describe("gpu1.SUP", "rdma:b:2", &info, line, sizeof(line));
	assert_string_equal(line, "rail gpu1.SUP rdma:b:2: down, Ethernet, 2.5 "
				  "Gb/s, MTU 1024, GID 3 ::ffff:10.0.0.1 "
				  "(RoCE v2)");
}

/* The tests below begin with the device list and use the proxy's
 * configuration. */
static struct mpib_config cfg;
static char why[MPIB_WHY_MAX];

static int no_devices(void **state)
{
	fake_ibv_reset();
	mpib_config_init(&cfg);
	if (scratch_make(state))
		return -1;
	scratch_dir("device");
	return 0;
}

/* Make the device look like hardware at this path in the scratch directory. */
static void give_hardware_at(struct fake_device *d, const char *place)
{
	snprintf(d->ibv.ibdev_path, sizeof(d->ibv.ibdev_path), "%s",
		 scratch_path(place));
}

static void give_hardware(struct fake_device *d)
{
	give_hardware_at(d, "");
}

/* Check that the start fails. The proxy once used loopback without an error,
 * which it must not do. */
static void nothing(const char *passed_over)
{
	assert_int_equal(mpib_config_finish(&cfg, why), -ENODEV);
	assert_non_null(strstr(why, passed_over));
	assert_non_null(strstr(why, "--sout soft for the software HCA"));
}

#define CASE(name) TEST_OF(name, no_devices, scratch_remove)

CASE(a_machine_without_devices_does_not_start)
{
	nothing("there is no RDMA device");
}

CASE(the_software_hca_is_used_if_it_is_configured)
{
	give_hardware(fake_ibv_add("fake_0", "127.41.2.1"));
	snprintf(cfg.sout, sizeof(cfg.sout), "soft");
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_string_equal(cfg.sout, "soft:127.0.0.1");
	assert_string_equal(cfg.sup, "soft:127.0.0.2");
	assert_int_equal(cfg.engine.rails, 2);
	snprintf(cfg.sout, sizeof(cfg.sout), "soft");
	snprintf(cfg.sup, sizeof(cfg.sup), "none");
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_int_equal(cfg.engine.rails, 1);
}

/* In sysfs, a scalable function is a separate device below the PCI function of
 * its card. */
CASE(a_scalable_function_does_not_count_as_its_card)
{
	static const char *const at[] = { "0000:08:00.0/mlx5_core.sf.2",
					  "0000:08:00.0" };
	char place[16], link[64];

	for (unsigned i = 0; i < 2; i++) {
		struct fake_device *d =
			fake_ibv_add(i ? "fake_1" : "fake_0", "127.41.2.1");

		d->attr.sys_image_guid = 7;
		snprintf(place, sizeof(place), "%u", i);
		scratch_dir(place);
		give_hardware_at(d, place);
		snprintf(place, sizeof(place), "%u/device", i);
		snprintf(link, sizeof(link), "../%s", at[i]);
		assert_int_equal(symlink(link, scratch_path(place)), 0);
	}
	scratch_dir(at[0]);
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_int_equal(cfg.engine.devices * cfg.engine.rails, 1);
	assert_string_equal(cfg.engine.rail[0].name, "fake_1");
}

CASE(a_port_after_many_functions_is_found)
{
	char name[16];

	for (unsigned i = 0; i < FAKE_DEVICES; i++) {
		struct fake_device *d;

		/* The last device is a port, not a function. */
		if (i == FAKE_DEVICES - 1) {
			scratch_dir("device/physfn");
			scratch_dir("own/device");
		}
		snprintf(name, sizeof(name), "fake_%u", i);
		d = fake_ibv_add(name, "127.41.2.1");
		d->attr.sys_image_guid = 7;
		give_hardware_at(d, i == FAKE_DEVICES - 1 ? "own" : "");
	}
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_int_equal(cfg.engine.devices * cfg.engine.rails, 1);
	assert_string_equal(cfg.engine.rail[0].name, name);
}

CASE(active_ports_become_the_rails)
{
	give_hardware(fake_ibv_add("fake_0", "127.41.2.1"));
	give_hardware(fake_ibv_add("fake_1", "127.41.2.2"));
	give_hardware(fake_ibv_add("fake_2", "127.41.2.3"));
	fake_ibv.device[1].port[0].attr.state = IBV_PORT_DOWN;
	/* another model than that of the first device */
	fake_ibv.device[1].attr.vendor_part_id = 1;
	snprintf(cfg.sout, sizeof(cfg.sout), "auto");
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_true(cfg.found);
	assert_int_equal(cfg.engine.rails, 2);
	assert_string_equal(cfg.engine.rail[0].name, "fake_0");
	assert_string_equal(cfg.engine.rail[1].name, "fake_2");
	assert_string_equal(cfg.passed_over, "fake_1:1 is not active");
}

/* The start once blocked until the call returned. */
CASE(a_device_that_does_not_answer_is_not_used)
{
	static const char *const call[] = { "ibv_open_device",
					    "ibv_query_port" };

	mpib_hca_wait_ms = HANGS_MS;
	for (unsigned i = 0; i < 2; i++) {
		fake_ibv_reset();
		mpib_config_init(&cfg);
		give_hardware(fake_ibv_add("fake_0", "127.41.2.1"));
		give_hardware(fake_ibv_add("fake_1", "127.41.2.2"));
		give_hardware(fake_ibv_add("fake_2", "127.41.2.3"));
		fake_ibv_hang("fake_1", call[i]);
		assert_int_equal(mpib_config_finish(&cfg, why), 0);
		assert_string_equal(cfg.engine.rail[0].name, "fake_0");
		assert_string_equal(cfg.engine.rail[1].name, "fake_2");
		assert_string_equal(cfg.passed_over,
				    "fake_1:1 does not answer (its firmware "
				    "may hang)");
		fake_ibv_release();
		/* When the hung call returns, the thread that made this call
		 * closes the device. After that, the device can be queried. */
		do
			mpib_config_init(&cfg);
		while (mpib_config_finish(&cfg, why) < 0 ||
		       cfg.engine.devices * cfg.engine.rails < 3);
	}
	mpib_hca_wait_ms = FAKE_IBV_PATIENCE_MS;
}

CASE(soft_roce_is_not_used_unless_configured)
{
	fake_ibv_add("rxe0", "127.41.2.1");
	nothing("rxe0:1 has no hardware behind it");
}

CASE(a_device_that_cannot_be_opened_is_reported)
{
	give_hardware(fake_ibv_add("fake_0", "127.41.2.1"));
	fake_ibv_fails("ibv_open_device", EACCES, 1);
	nothing("fake_0:1 Permission denied");
}

CASE(a_device_of_another_transport_is_ignored)
{
	struct fake_device *d = fake_ibv_add("iw0", "127.41.2.1");

	give_hardware(d);
	d->ibv.transport_type = IBV_TRANSPORT_IWARP;
	nothing("there is no RDMA device");
}
