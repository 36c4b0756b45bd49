/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/rails: which ports are taken where nobody named them, and how a port
 * is described. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "fake_ibv.h"
#include "rails/discover.h"
#include "test.h"
#include "verbs/hca/hca.h"

/* How long devices may take to answer, on a machine with more to do, where one
 * hangs. */
#define HANGS_MS 4000

#define IB IBV_LINK_LAYER_INFINIBAND
#define ETH IBV_LINK_LAYER_ETHERNET

static void a_node_is_near_to_itself_and_to_nobody_knows_where(void **state)
{
	assert_int_equal(mpib_numa_distance(0, 0), 10);
	assert_int_equal(mpib_numa_distance(-1, 3), 10);
	assert_true(mpib_numa_distance(0, 70000) > 10);
	mpib_numa_forget();
	assert_true(mpib_numa_distance(70001, 0) > 10);
	mpib_numa_forget();
}

static void a_port_is_told_as_ibv_devinfo_would(void **state)
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

/* The same from the device list on, by the proxy's configuration. */
static struct mpib_config cfg;
static char dir[40], why[MPIB_WHY_MAX];

static int no_devices(void **state)
{
	fake_ibv_reset();
	mpib_config_init(&cfg);
	strcpy(dir, "/tmp/mpib-rails-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int rm_dir(void **state)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/device/physfn", dir);
	rmdir(path);
	snprintf(path, sizeof(path), "%s/device", dir);
	rmdir(path);
	return rmdir(dir);
}

static void give_hardware(struct fake_device *d)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/device", dir);
	mkdir(path, 0700);
	snprintf(d->ibv.ibdev_path, sizeof(d->ibv.ibdev_path), "%s", dir);
}

/* It was loopback, and everything was content. */
static void nothing(const char *passed_over)
{
	assert_int_equal(mpib_config_finish(&cfg, why), -ENODEV);
	assert_non_null(strstr(why, passed_over));
	assert_non_null(strstr(why, "--sout soft for the software HCA"));
}

static void a_machine_without_devices_does_not_start(void **state)
{
	nothing("there is no RDMA device");
}

static void the_software_hca_serves_where_it_is_asked_for(void **state)
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

static void virtual_functions_of_a_card_are_one_hca(void **state)
{
	char path[64];

	for (unsigned i = 0; i < 3; i++) {
		struct fake_device *d =
			fake_ibv_add((const char *const[]){ "fake_0", "fake_1",
							    "fake_2" }[i],
				     "127.41.2.1");

		d->attr.sys_image_guid = 7;
		give_hardware(d);
	}
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_int_equal(cfg.engine.devices * cfg.engine.rails, 6);
	/* As sysfs tells whose function a device is. */
	snprintf(path, sizeof(path), "%s/device/physfn", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	mpib_config_init(&cfg);
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_int_equal(cfg.engine.devices * cfg.engine.rails, 1);
	assert_non_null(strstr(cfg.passed_over, "fake_1:1 is of a card"));
}

/* By sysfs a scalable function is a device of its own, below the PCI function. */
static void a_scalable_function_does_not_stand_for_its_card(void **state)
{
	static const char *const at[] = { "0000:08:00.0/mlx5_core.sf.2",
					  "0000:08:00.0" };
	char path[160], command[64];

	for (unsigned i = 0; i < 2; i++) {
		struct fake_device *d =
			fake_ibv_add(i ? "fake_1" : "fake_0", "127.41.2.1");

		d->attr.sys_image_guid = 7;
		snprintf(d->ibv.ibdev_path, sizeof(d->ibv.ibdev_path), "%s/%u",
			 dir, i);
		assert_int_equal(mkdir(d->ibv.ibdev_path, 0700), 0);
	}
	snprintf(path, sizeof(path), "%s/%s", dir, at[1]);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/%s", dir, at[0]);
	assert_int_equal(mkdir(path, 0700), 0);
	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%u/device", dir, i);
		snprintf(command, sizeof(command), "../%s", at[i]);
		assert_int_equal(symlink(command, path), 0);
	}
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_int_equal(cfg.engine.devices * cfg.engine.rails, 1);
	assert_string_equal(cfg.engine.rail[0].name, "fake_1");
	snprintf(command, sizeof(command), "rm -r %s/*", dir);
	assert_int_equal(system(command), 0);
}

static void a_port_behind_many_functions_is_found(void **state)
{
	char path[64], name[16];

	for (unsigned i = 0; i < FAKE_DEVICES; i++) {
		struct fake_device *d;

		if (i == FAKE_DEVICES - 1) { /* is not one of them */
			snprintf(path, sizeof(path), "%s/device/physfn", dir);
			assert_int_equal(mkdir(path, 0700), 0);
			strcat(dir, "/own");
			assert_int_equal(mkdir(dir, 0700), 0);
		}
		snprintf(name, sizeof(name), "fake_%u", i);
		d = fake_ibv_add(name, "127.41.2.1");
		d->attr.sys_image_guid = 7;
		give_hardware(d);
	}
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_int_equal(cfg.engine.devices * cfg.engine.rails, 1);
	assert_string_equal(cfg.engine.rail[0].name, name);
	rm_dir(NULL);
	*strrchr(dir, '/') = '\0';
}

static void ports_that_are_down_are_rails_all_the_same(void **state)
{
	give_hardware(fake_ibv_add("fake_0", "127.41.2.1"));
	give_hardware(fake_ibv_add("fake_1", "127.41.2.2"));
	fake_ibv.device[0].port[0].attr.state = IBV_PORT_DOWN;
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_int_equal(cfg.engine.rails, 2);
	assert_string_equal(cfg.engine.rail[0].name, "fake_0");
	assert_string_equal(cfg.engine.rail[1].name, "fake_1");
	fake_ibv.device[1].port[0].attr.state = IBV_PORT_INIT;
	cfg.sout[0] = cfg.sup[0] = '\0';
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_int_equal(cfg.engine.rails, 2);
	assert_string_equal(cfg.engine.rail[0].name, "fake_0");
}

static void a_second_port_without_a_cable_is_no_rail(void **state)
{
	struct fake_device *d = fake_ibv_add("fake_0", "127.41.2.1");

	give_hardware(d);
	d->attr.phys_port_cnt = 2;
	d->port[1].attr.state = IBV_PORT_DOWN;
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_int_equal(cfg.engine.rails, 1);
}

static void active_ports_become_the_rails(void **state)
{
	give_hardware(fake_ibv_add("fake_0", "127.41.2.1"));
	give_hardware(fake_ibv_add("fake_1", "127.41.2.2"));
	give_hardware(fake_ibv_add("fake_2", "127.41.2.3"));
	fake_ibv.device[1].port[0].attr.state = IBV_PORT_DOWN;
	fake_ibv.device[1].attr.vendor_part_id = 1; /* of another model */
	snprintf(cfg.sout, sizeof(cfg.sout), "auto");
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_true(cfg.found);
	assert_int_equal(cfg.engine.rails, 2);
	assert_string_equal(cfg.engine.rail[0].name, "fake_0");
	assert_string_equal(cfg.engine.rail[1].name, "fake_2");
	assert_string_equal(cfg.passed_over, "fake_1:1 is not active");
}

/* It kept the start, for as long as the call hung. */
static void a_device_that_does_not_answer_is_left_out(void **state)
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
		/* What the call made is closed, and then it can be asked. */
		do
			mpib_config_init(&cfg);
		while (mpib_config_finish(&cfg, why) < 0 ||
		       cfg.engine.devices * cfg.engine.rails < 3);
	}
	mpib_hca_wait_ms = FAKE_IBV_PATIENCE_MS;
}

static void soft_roce_is_not_taken_unasked(void **state)
{
	fake_ibv_add("rxe0", "127.41.2.1");
	nothing("rxe0:1 has no hardware behind it");
}

static void a_device_that_cannot_be_opened_is_told(void **state)
{
	give_hardware(fake_ibv_add("fake_0", "127.41.2.1"));
	fake_ibv_fails("ibv_open_device", EACCES, 1);
	nothing("fake_0:1 Permission denied");
}

static void another_transport_is_none_of_ours(void **state)
{
	struct fake_device *d = fake_ibv_add("iw0", "127.41.2.1");

	give_hardware(d);
	d->ibv.transport_type = IBV_TRANSPORT_IWARP;
	nothing("there is no RDMA device");
}

static void without_sup_one_port_is_enough(void **state)
{
	give_hardware(fake_ibv_add("fake_0", "127.41.2.1"));
	give_hardware(fake_ibv_add("fake_1", "127.41.2.2"));
	snprintf(cfg.sup, sizeof(cfg.sup), "none");
	assert_int_equal(mpib_config_finish(&cfg, why), 0);
	assert_int_equal(cfg.engine.rails, 1);
	assert_string_equal(cfg.engine.rail[0].name, "fake_0");
}

#define p(f) cmocka_unit_test(f)
#define d(f) cmocka_unit_test_setup_teardown(f, no_devices, rm_dir)

const struct CMUnitTest test_list[] = {
	p(a_node_is_near_to_itself_and_to_nobody_knows_where),
	p(a_port_is_told_as_ibv_devinfo_would),
	d(a_machine_without_devices_does_not_start),
	d(the_software_hca_serves_where_it_is_asked_for),
	d(virtual_functions_of_a_card_are_one_hca),
	d(a_scalable_function_does_not_stand_for_its_card),
	d(a_port_behind_many_functions_is_found),
	d(ports_that_are_down_are_rails_all_the_same),
	d(a_second_port_without_a_cable_is_no_rail),
	d(a_device_that_does_not_answer_is_left_out),
	d(active_ports_become_the_rails),
	d(soft_roce_is_not_taken_unasked),
	d(a_device_that_cannot_be_opened_is_told),
	d(another_transport_is_none_of_ours),
	d(without_sup_one_port_is_enough),
	{ 0 },
};
