/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/doctor/: ports and their place in the machine, bytes over each rail, and
 * a node whose proxy does not run. */
#include <arpa/inet.h>
#include <sys/stat.h>

#include "addr.h"
#include "patient.h"
#include "scratch.h"
#include "test.h"

#define ONE_RAIL                                                                \
	"[{\"label\":\"SOUT\",\"device\":\"rdma:mlx5_0\",\"state\":\"active\"," \
	"\"mtu\":4096,\"gid\":\"::ffff:10.0.0.1\",\"expected_mbps\":800000}]"

TEST(a_port_below_its_speed_is_told)
{
	struct mpib_doctor d = patient_of(ONE_RAIL);

	scratch_write("class/infiniband/mlx5_0/ports/1/link_layer",
		      "Ethernet\n");
	mpib_check_rails(&d);
	assert_found(&d, "WARN", "rail SOUT", "PORT AT 400 of 800 Gb/s");
	json_object_set_new(json_array_get(d.rails, 0), "expected_mbps",
			    json_integer(400000));
	json_array_clear(d.findings);
	mpib_check_rails(&d);
	assert_found(&d, "OK", "rail SOUT", "400 Gb/sec (4X NDR), Ethernet");
	assert_false(patient_has(&d, "WARN", "rail SOUT", ""));
	patient_release(&d);
}

TEST(cards_of_a_kind_have_one_firmware)
{
	struct mpib_doctor d = patient_of(
		"[" RAIL("SOUT", "rdma:mlx5_0", "active", "4096", "::1",
			 "0") "," RAIL("SUP", "rdma:mlx5_1:2", "active", "4096",
				       "::1", "0") "]");

	mpib_check_firmware(&d);
	assert_int_equal(json_array_size(d.findings), 0);
	scratch_write("class/infiniband/mlx5_0/board_id", "MT_0000000838\n");
	scratch_write("class/infiniband/mlx5_1/board_id", "MT_0000000838\n");
	scratch_write("class/infiniband/mlx5_0/fw_ver", "28.39.1002\n");
	scratch_write("class/infiniband/mlx5_1/fw_ver", "28.39.1002\n");
	mpib_check_firmware(&d);
	assert_int_equal(json_array_size(d.findings), 0);
	scratch_write("class/infiniband/mlx5_1/fw_ver", "28.38.1000\n");
	mpib_check_firmware(&d);
	assert_found(&d, "WARN", "firmware", "28.39.1002 and 28.38.1000");
	patient_release(&d);
}

/* The first n bytes of a bridge's configuration space, above mlx5_0. */
static void put_bridge(const uint8_t *config, size_t n)
{
	FILE *f = fopen(scratch_path("class/infiniband/config"), "w");

	assert_non_null(f);
	assert_int_equal(fwrite(config, 1, n, f), n);
	fclose(f);
}

TEST(what_a_bridge_and_the_iommu_do_is_told)
{
	/* At 0x100 another capability, at 0x140 ACS, the end of the list. */
	uint8_t config[4096] = {
		[0x100] = 0x01, [0x103] = 0x14, [0x140] = 0x0d, [0x146] = 0x1d
	};
	struct mpib_doctor d = patient_of(ONE_RAIL);

	scratch_write("class/infiniband/mlx5_0/device/iommu_group/type",
		      "DMA-FQ\n");
	put_bridge(config, sizeof(config));
	mpib_check_rails(&d);
	assert_found(&d, "WARN", "rail SOUT", "ACS of bridge infiniband");
	assert_found(&d, "NOTE", "rail SOUT", "IOMMU translates");
	/* As others than root see it; cut in the capability; off; a ring. */
	for (unsigned i = 0; i < 4; i++) {
		static const size_t size[] = { 64, 0x145, 4096, 4096 };

		config[0x146] = i == 2 ? 0x11 : 0x1d;
		config[0x140] = i == 3 ? 0x0e : 0x0d;
		config[0x143] = i == 3 ? 0x10 : 0;
		put_bridge(config, size[i]);
		json_array_clear(d.findings);
		mpib_check_rails(&d);
		assert_false(patient_has(&d, "WARN", "rail SOUT", "ACS"));
	}
	patient_release(&d);
}

/* An address of ours, as a text. */
static const char *own_addr(void)
{
	struct in_addr in = { .s_addr = htonl(test_addr(1)) };

	return inet_ntoa(in);
}

TEST(each_rail_moves_bytes_to_itself)
{
	char rails[512];
	struct mpib_doctor d;

	snprintf(rails, sizeof(rails),
		 "[{\"label\":\"SOUT\",\"device\":\"soft:%s\"},"
		 "{\"label\":\"SUP\",\"device\":\"soft:192.0.2.1\"},"
		 "{\"label\":\"C\",\"device\":\"rdma:none0\"},"
		 "{\"label\":\"D\",\"device\":\"quantum:1\"}]",
		 own_addr());
	d = patient_of(rails);
	mpib_check_loop(&d);
	assert_int_equal(json_array_size(d.findings), 4);
	assert_found(&d, "OK", "loop SOUT", "16 MiB to itself, right");
	assert_found(&d, "FAIL", "loop SUP", "ibv_open_device");
	assert_found(&d, "FAIL", "loop C", "rdma:none0:1: ibv_open_device");
	assert_found(&d, "FAIL", "loop D", "quantum:1");
	patient_release(&d);
}

/* What stands in for mpib-proxy --check-config. */
static struct mpib_doctor absent(const char *script)
{
	struct mpib_doctor d = { .sysfs = scratch,
				 .reached = MPIB_EXIT_NO_PROXY,
				 .absent = true,
				 .findings = json_array() };
	static char path[300];

	snprintf(path, sizeof(path), "%s", scratch_path("proxy"));
	scratch_write("proxy", script);
	assert_int_equal(chmod(path, 0700), 0);
	d.proxy = path;
	return d;
}

TEST(without_a_proxy_its_settings_and_rails_are_looked_at)
{
	char script[512];
	struct mpib_doctor d;

	snprintf(script, sizeof(script),
		 "#!/bin/sh\n"
		 "[ \"$1\" = --check-config ] || exit 1\n"
		 "echo '[run]'; echo 'speed = 9 ; not this'\n"
		 "echo '[hca]'; echo 'sout = auto    ; built-in'\n"
		 "echo 'speed = 400 ; built-in'; echo\n"
		 "echo '; device 0: soft:%s, none'; echo '; found: one'\n",
		 own_addr());
	d = absent(script);
	mpib_check_settings(&d);
	mpib_check_rails(&d);
	mpib_check_loop(&d);
	assert_found(&d, "OK", "settings", "would start");
	assert_int_equal(json_array_size(d.rails), 1);
	assert_int_equal(
		mpib_json_num(json_array_get(d.rails, 0), "expected_mbps"),
		400000);
	assert_found(&d, "WARN", "rails", "software HCA");
	assert_found(&d, "OK", "loop SOUT", "right");
	assert_false(patient_has(&d, "FAIL", "settings", ""));
	patient_release(&d);

	/* Of two devices that have their HCAs in common. */
	snprintf(script, sizeof(script),
		 "#!/bin/sh\n"
		 "echo '; device a: soft:%s, soft:127.84.7.7'\n"
		 "echo '; device b: soft:127.84.7.7, soft:%s'\n",
		 own_addr(), own_addr());
	d = absent(script);
	mpib_check_settings(&d);
	assert_int_equal(json_array_size(d.rails), 4);
	assert_string_equal(mpib_json_str(json_array_get(d.rails, 2), "label"),
			    "b.SOUT");
	mpib_check_loop(&d);
	assert_found(&d, "OK", "loop a.SOUT", "right");
	assert_found(&d, "OK", "loop a.SUP", "right");
	assert_false(patient_has(&d, "OK", "loop b.SOUT", ""));
	patient_release(&d);
}

#define OF(label, name, dev, gbps, state)                                      \
	"{\"label\":\"" label "\",\"name\":\"" name "\",\"device\":\"" dev     \
	"\",\"state\":\"" state "\",\"mtu\":4096,\"gid\":\"::1\","             \
	"\"speed_mbps\":" gbps "000}"

TEST(devices_are_equals_with_hcas_of_their_own)
{
	struct mpib_doctor d = patient_of(
		"[" OF("a.SOUT", "SOUT", "rdma:mlx5_0:1", "400", "active") "," OF(
			"a.SUP", "SUP", "rdma:mlx5_1:1", "400",
			"active") "," OF("b.SOUT", "SOUT", "rdma:mlx5_1:1",
					 "400",
					 "active") "," OF("b.SUP", "SUP",
							  "rdma:mlx5_0:1",
							  "400", "active") "]");
	json_t *third;

	third = json_array_get(d.rails, 2);
	mpib_check_devices(&d);
	assert_found(&d, "OK", "devices", "there are 2");
	assert_int_equal(json_array_size(d.findings), 1);
	/* The faults of mlx5_1 are told once, NUMA nodes per HCA. */
	mpib_check_rails(&d);
	mpib_check_numa(&d);
	assert_found(&d, "WARN", "rail a.SUP", "");
	assert_false(patient_has(&d, "WARN", "rail b.SOUT", ""));
	assert_found(&d, "OK", "NUMA", "a.SOUT: mlx5_0");
	assert_false(patient_has(&d, "OK", "NUMA", "b.SUP"));
	assert_false(patient_has(&d, "WARN", "rails", "only one"));

	json_array_clear(d.findings);
	json_object_set_new(third, "speed_mbps", json_integer(200000));
	mpib_check_devices(&d);
	assert_found(&d, "WARN", "devices",
		     "b.SOUT has 200 Gb/s and a.SOUT "
		     "400");
	json_array_clear(d.findings);
	json_object_set_new(third, "state", json_string("down"));
	json_object_set_new(third, "device", json_string("rdma:mlx5_0:1"));
	mpib_check_devices(&d);
	assert_found(&d, "WARN", "devices",
		     "a.SOUT and b.SOUT are both rdma:mlx5_0:1");
	assert_false(patient_has(&d, "WARN", "devices", "Gb/s"));
	patient_release(&d);
}

TEST(devices_without_sup_are_told_once)
{
	struct mpib_doctor d = patient_of(
		"[" OF("a.SOUT", "SOUT", "rdma:mlx5_0:1", "400",
		       "active") "," OF("b.SOUT", "SOUT", "rdma:mlx5_1:1",
					"400", "active") "]");

	mpib_check_rails(&d);
	assert_found(&d, "WARN", "rails", "each device has only one");
	patient_release(&d);
}

TEST(what_a_start_would_refuse_is_told)
{
	/* As with log.format = json, where the environment does not win. */
	struct mpib_doctor d = absent(
		"#!/bin/sh\n"
		"[ \"$MPIB_LOG_FORMAT\" = text ] ||\n"
		"	{ echo '{\"message\":\"a is b\"}' >&2; exit 78; }\n"
		"echo 'mpib-proxy: /etc/mpib/mpib.conf: a is b (do c)' >&2\n"
		"echo 'mpib-proxy: more' >&2; exit 78\n");
	const json_t *first;

	mpib_check_settings(&d);
	assert_int_equal(json_array_size(d.findings), 2);
	assert_found(&d, "FAIL", "settings", "/etc/mpib/mpib.conf: a is b");
	assert_found(&d, "FAIL", "settings", "more");
	first = json_array_get(d.findings, 0);
	assert_string_equal(mpib_json_str(first, "fix"), "do c");
	mpib_check_rails(&d);
	mpib_check_numa(&d);
	assert_int_equal(json_array_size(d.findings), 2);
	patient_release(&d);

	d = absent("#!/bin/sh\n");
	d.proxy = "/nonexistent/mpib-proxy";
	mpib_check_settings(&d);
	assert_int_equal(json_array_size(d.findings), 1);
	assert_found(&d, "NOTE", "settings", "/nonexistent/mpib-proxy");
	assert_null(d.rails);
	patient_release(&d);
}

TEST(only_a_rank_needs_the_plugin)
{
	struct mpib_doctor d = patient_of("[]");

	unsetenv("NCCL_NET_PLUGIN");
	unsetenv("SLURM_PROCID");
	mpib_check_plugin(&d);
	assert_found(&d, "OK", "plugin", "no rank's shell");
	setenv("SLURM_PROCID", "0", 1);
	mpib_check_plugin(&d);
	assert_found(&d, "WARN", "plugin", "not set in this rank");
	unsetenv("SLURM_PROCID");
	patient_release(&d);
}

struct test_group test_group = { patient_machine, scratch_remove };
