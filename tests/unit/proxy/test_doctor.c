/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/doctor/: what it finds on a machine made up of files and of a proxy's
 * answers, with RDMA devices that the test's machine need not have. */
#include "doctor/doctor.h"

#include <sys/stat.h>
#include <unistd.h>

#include "patient.h"
#include "scratch.h"
#include "test.h"

TEST(good_rails_are_well)
{
	struct mpib_doctor d =
		patient_of("[" RAIL("SOUT", "rdma:mlx5_0", "active", "4096",
				    "::ffff:10.0.0.1", "0") "]");

	mpib_check_rails(&d);
	mpib_check_numa(&d);
	assert_found(&d, "OK", "rail SOUT", "400 Gb/sec");
	assert_found(&d, "OK", "NUMA", "mlx5_0 is on node 0, as a GPU is");
	/* One rail is one too few. */
	assert_found(&d, "WARN", "rails", "only one");
	assert_int_equal(d.count[MPIB_WARN], 1);
	assert_int_equal(d.count[MPIB_FAIL], 0);
	patient_release(&d);
}

/* What NCCL's openPluginLib() tries, and nothing that it does not. */
TEST(a_plugin_is_looked_for_as_nccl_does)
{
	static const struct {
		const char *named, *tried;
		bool other; /* libnccl-net-NAME.so is tried, too */
	} cases[] = {
		{ "nowhere", "libnccl-net-nowhere.so", true },
		{ "/nowhere/foo.so",
		  "=/nowhere/foo.so: /nowhere/foo.so:", false },
		{ "nowhere/foo", "=nowhere/foo: nowhere/foo:", false },
		{ "libnowhere.so", "=libnowhere.so: libnowhere.so:", false },
		{ "nowhere.so", "libnccl-net-nowhere.so.so", true },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct mpib_doctor d = patient_of("[]");
		const char *found;

		setenv("NCCL_NET_PLUGIN", cases[i].named, 1);
		mpib_check_plugin(&d);
		assert_found(&d, "FAIL", "plugin", cases[i].tried);
		found = json_string_value(
			json_object_get(json_array_get(d.findings, 0), "what"));
		assert_non_null(found);
		assert_int_equal(strstr(found, "libnccl-net-") != NULL,
				 cases[i].other);
		patient_release(&d);
	}
	unsetenv("NCCL_NET_PLUGIN");
}

TEST(each_fault_of_a_rail_is_found)
{
	struct mpib_doctor d = patient_of(
		"[" RAIL("SOUT", "rdma:mlx5_0", "down", "4096",
			 "::", "3") "," RAIL("SUP", "rdma:mlx5_1:2", "active",
					     "1024", "fe80::1", "0") "]");

	mpib_check_rails(&d);
	mpib_check_numa(&d);
	assert_found(&d, "FAIL", "rail SOUT", "is down");
	assert_found(&d, "FAIL", "rail SOUT", "no GID");
	assert_found(&d, "NOTE", "rail SOUT", "3 completions");
	assert_found(&d, "WARN", "rail SUP", "one lane");
	assert_found(&d, "WARN", "rail SUP", "width 8 of 16");
	assert_found(&d, "WARN", "rail SUP", "MTU of 1024");
	assert_found(&d, "WARN", "rail SUP", "its own link only");
	assert_found(&d, "WARN", "rails", "MTUs differ");
	assert_found(&d, "WARN", "NUMA", "distance 21");
	patient_release(&d);
}

TEST(a_software_rail_beside_hardware_is_told)
{
	struct mpib_doctor d =
		patient_of("[" RAIL("SOUT", "soft:127.0.0.1", "active", "4096",
				    "::ffff:127.0.0.1", "0") "]");

	mpib_check_rails(&d);
	assert_found(&d, "WARN", "rails", "for trials");
	assert_found(&d, "WARN", "rails", "has RDMA devices");
	d.sysfs = "/nonexistent";
	json_array_clear(d.findings);
	mpib_check_rails(&d);
	assert_false(patient_has(&d, "WARN", "rails", "has RDMA devices"));
	patient_release(&d);
}

TEST(broken_lanes_and_other_versions_are_told)
{
	struct mpib_doctor d = patient_of("[]");

	mpib_check_lanes(&d);
	assert_found(&d, "WARN", "lanes", "1 of 2 are broken");
	mpib_check_versions(&d);
	assert_found(&d, "OK", "versions", MPIB_VERSION);
	json_object_set_new(d.greeting, "mpib", json_string("0.0.1"));
	mpib_check_versions(&d);
	assert_found(&d, "NOTE", "versions", "the proxy is 0.0.1");
	json_object_set_new(d.info, "abi", json_integer(99));
	mpib_check_versions(&d);
	assert_found(&d, "FAIL", "versions", "ABI 99");
	patient_release(&d);
}

TEST(a_fault_that_is_played_is_told)
{
	struct mpib_doctor d = patient_of("[]");

	d.faults = json_loads("[{\"rail\":\"SUP\",\"fault\":\"link-down\","
			      "\"left_s\":7.2,\"uid\":3}]",
			      0, NULL);
	mpib_check_faults(&d);
	assert_found(&d, "WARN", "fault",
		     "link-down is played on SUP for another 7 s, by uid 3");
	json_decref(d.faults);
	patient_release(&d);
}

TEST(a_peer_whose_link_is_refused_is_told)
{
	struct mpib_doctor d = patient_of("[]");

	d.peers = json_loads("[{\"peer\":\"10.0.0.1:1\",\"refused\":null},"
			     "{\"peer\":\"10.0.0.2\",\"refused\":{\"count\":7,"
			     "\"age_s\":3.0,\"why\":\"it does not know the key "
			     "(give both the same peer.key_file)\"}}]",
			     0, NULL);
	mpib_check_peers(&d);
	assert_int_equal(json_array_size(d.findings), 1);
	assert_found(&d, "WARN", "peers",
		     "10.0.0.2 was refused 7 times, last 3 s ago: it does not "
		     "know the key");
	json_decref(d.peers);
	patient_release(&d);
}

TEST(a_lost_device_is_no_port_that_is_down)
{
	struct mpib_doctor d =
		patient_of("[" RAIL("SOUT", "rdma:mlx5_0", "lost", "4096",
				    "::ffff:10.0.0.1", "0") "]");

	mpib_check_rails(&d);
	assert_found(&d, "FAIL", "rail SOUT", "its port was down at the start");
	assert_false(patient_has(&d, "FAIL", "rail SOUT", "is down"));
	patient_release(&d);
}

TEST(without_a_proxy_its_absence_is_all_that_is_told)
{
	struct mpib_doctor d = { .sysfs = scratch,
				 .reached = MPIB_EXIT_NO_PROXY,
				 .findings = json_array() };

	snprintf(d.why, sizeof(d.why), "/x/stats.sock: refused (start it)");
	mpib_check_socket(&d);
	mpib_check_versions(&d);
	mpib_check_rails(&d);
	mpib_check_lanes(&d);
	mpib_check_memlock(&d);
	mpib_check_numa(&d);
	assert_int_equal(json_array_size(d.findings), 1);
	assert_found(&d, "FAIL", "socket", "/x/stats.sock: refused");
	assert_string_equal(json_string_value(json_object_get(
				    json_array_get(d.findings, 0), "fix")),
			    "start it");
	json_decref(d.findings);
}

TEST(the_limit_of_locked_memory_counts_with_hardware)
{
	struct mpib_doctor d = patient_of("[" RAIL(
		"SOUT", "rdma:mlx5_0", "active", "4096", "::1", "0") "]");

	/* Ours, whatever it is. */
	json_object_set_new(d.greeting, "pid", json_integer(getpid()));
	mpib_check_memlock(&d);
	assert_int_equal(json_array_size(d.findings), 1);
	assert_false(patient_has(&d, "OK", "memlock", "software"));
	patient_release(&d);
}

/* The last test: the GPU stays in the machine. */
TEST(an_accelerator_of_any_maker_is_a_gpu)
{
	struct mpib_doctor d =
		patient_of("[" RAIL("SUP", "rdma:mlx5_1:2", "active", "4096",
				    "::ffff:10.0.0.1", "0") "]");

	scratch_write("bus/pci/devices/0000:99:00.0/vendor", "0x1002\n");
	scratch_write("bus/pci/devices/0000:99:00.0/class", "0x120000\n");
	scratch_write("bus/pci/devices/0000:99:00.0/numa_node", "1\n");
	mpib_check_numa(&d);
	assert_found(&d, "OK", "NUMA", "mlx5_1 is on node 1, as a GPU is");
	patient_release(&d);
}

#define STAT                                                                   \
	"1 (a b) c) S 1 1 1 0 -1 4194560 1 0 0 0 5 3 0 0 20 %d 3 0 64 0 0\n"

static struct mpib_doctor patient_with_share(int nice, const char *cgroup)
{
	struct mpib_doctor d = patient_of("[]");
	char line[128];

	json_object_set_new(d.info, "shards", json_loads("[{},{}]", 0, NULL));
	snprintf(line, sizeof(line), STAT, nice);
	scratch_write("1/stat", line);
	scratch_write("1/cgroup", cgroup);
	return d;
}

TEST(a_proxy_with_its_share_of_cpu_is_well)
{
	struct mpib_doctor d = patient_with_share(-5, "0::/system/mpib\n");

	scratch_write("fs/cgroup/system/mpib/cpu.max", "max 100000\n");
	scratch_write("fs/cgroup/system/mpib/cpu.stat", "nr_throttled 0\n");
	mpib_check_cpu(&d);
	assert_found(&d, "OK", "cpu", "nice -5, no quota, never throttled");
	patient_release(&d);
}

TEST(a_share_of_cpu_that_is_too_small_is_told)
{
	struct mpib_doctor d = patient_with_share(19, "0::/pods/pod/mpib\n");

	scratch_write("fs/cgroup/pods/pod/mpib/cpu.max", "max 100000\n");
	/* A quota of the pod is one of its containers, too. */
	scratch_write("fs/cgroup/pods/pod/cpu.max", "150000 100000\n");
	scratch_write("fs/cgroup/pods/pod/cpu.stat",
		      "usage_usec 7\nnr_periods 9\nnr_throttled 7\n"
		      "throttled_usec 2500000\n");
	mpib_check_cpu(&d);
	assert_found(&d, "WARN", "cpu", "at nice 19");
	assert_found(&d, "WARN", "cpu", "1.50 cores and has 2 shards");
	assert_found(&d, "WARN", "cpu", "throttled 7 times, for 2.5 s");
	patient_release(&d);
}

struct test_group test_group = { patient_machine, scratch_remove };
