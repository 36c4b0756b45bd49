/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/doctor/: the findings for a machine and its proxy. Files replace the
 * machine's sysfs, and a text replaces the proxy's answer, so the test needs no
 * RDMA device. Most cases are rows of patients[].
 */
#include "doctor/doctor.h"

#include <mpib/abi.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scratch.h"
#include "test.h"

/* The sysfs of a machine with two HCAs, mlx5_0 and mlx5_1. mlx5_1 has
 * faults. */
static const char *const machine[][2] = {
	{ "class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n" },
	{ "class/infiniband/mlx5_0/device/numa_node", "0\n" },
	{ "class/infiniband/mlx5_0/device/current_link_speed", "32.0 GT/s\n" },
	{ "class/infiniband/mlx5_0/device/max_link_speed", "32.0 GT/s\n" },
	{ "class/infiniband/mlx5_0/device/current_link_width", "16\n" },
	{ "class/infiniband/mlx5_0/device/max_link_width", "16\n" },
	{ "class/infiniband/mlx5_1/ports/2/rate", "100 Gb/sec (1X NDR)\n" },
	{ "class/infiniband/mlx5_1/device/numa_node", "1\n" },
	{ "class/infiniband/mlx5_1/device/current_link_width", "8\n" },
	{ "class/infiniband/mlx5_1/device/max_link_width", "16\n" },
	{ "devices/system/node/node0/distance", "10 21\n" },
	{ "devices/system/node/node1/distance", "21 10\n" },
	{ "bus/pci/devices/0000:17:00.0/vendor", "0x10de\n" },
	{ "bus/pci/devices/0000:17:00.0/class", "0x030200\n" },
	{ "bus/pci/devices/0000:17:00.0/numa_node", "0\n" },
	{ "bus/pci/devices/0000:18:00.0/vendor", "0x8086\n" },
};

static int make_machine(void **state)
{
	int rc = scratch_make(state);

	for (unsigned i = 0; i < sizeof(machine) / sizeof(machine[0]); i++)
		scratch_write(machine[i][0], machine[i][1]);
	return rc;
}

#define CASE(name) TEST_OF(name, make_machine, scratch_remove)

/* Prepare the doctor for that machine and a proxy that reports these rails. */
static struct mpib_doctor patient_of(const char *rails)
{
	struct mpib_doctor d = { .sysfs = scratch,
				 .proc = scratch,
				 .findings = json_array() };

	d.greeting = json_pack("{ss sI}", "mpib", MPIB_VERSION, "pid",
			       (json_int_t)1);
	d.info = json_pack("{sI s[{}{}]}", "abi", (json_int_t)MPIB_ABI_VERSION,
			   "shards");
	d.lanes = json_pack("[{sb ss s{sb sb}} {sb}]", "broken", 0, "peer",
			    "10.0.0.9:1", "live", "sout", 0, "sup", 1, "broken",
			    1);
	d.rails = json_loads(rails, 0, NULL);
	assert_non_null(d.rails);
	return d;
}

/* Check that each finding has a remedy, except those with status OK. Free the
 * doctor's data. */
static void release(struct mpib_doctor *d)
{
	const json_t *f;
	size_t i;

	json_array_foreach(d->findings, i, f)
	{
		bool ok = !strcmp(mpib_json_str(f, "status"), "OK");

		assert_int_equal(ok, json_object_get(f, "fix") == NULL);
	}
	json_decref(d->greeting);
	json_decref(d->info);
	json_decref(d->lanes);
	json_decref(d->rails);
	json_decref(d->peers);
	json_decref(d->findings);
}

/* Return whether the doctor has a finding like `want`, which consists of the
 * status, the check and a part of the text, separated by bars. */
static bool has(const struct mpib_doctor *d, const char *want)
{
	const json_t *f;
	size_t i;

	json_array_foreach(d->findings, i, f)
	{
		char text[160];
		int n = snprintf(text, sizeof(text), "%s|%s|",
				 mpib_json_str(f, "status"),
				 mpib_json_str(f, "check"));

		if (!strncmp(text, want, (size_t)n) &&
		    strstr(mpib_json_str(f, "what"), want + n))
			return true;
	}
	return false;
}

static void assert_found(const struct mpib_doctor *d, const char *want)
{
	if (!has(d, want))
		fail_msg("no \"%s\" in %s", want,
			 json_dumps(d->findings, JSON_INDENT(1)));
}

#define RAIL(name, dev, state, mtu, gid, errors)                               \
	"{\"name\":\"" name "\",\"label\":\"" name "\",\"device\":\"" dev      \
	"\",\"state\":\"" state "\",\"mtu\":" mtu ",\"gid\":\"" gid            \
	"\",\"cqe_errors\":" errors "}"
#define SOUT(dev, state)                                                       \
	RAIL("SOUT", dev, state, "4096", "::ffff:10.0.0.1", "0")
#define FAULTY_SUP                                                             \
	RAIL("SUP", "rdma:mlx5_1:2", "active", "1024", "fe80::1", "0")
#define EXPECTED(mbps)                                                         \
	"[{\"label\":\"SOUT\",\"device\":\"rdma:mlx5_0\",\"state\":"           \
	"\"active\",\"mtu\":4096,\"gid\":\"::ffff:10.0.0.1\","                 \
	"\"expected_mbps\":" mbps "}]"
/* A rail of a node with several devices, with its HCA's port and speed. */
#define OF(label, name, dev, gbps, state)                                      \
	"{\"label\":\"" label "\",\"name\":\"" name "\",\"device\":\"" dev     \
	"\",\"state\":\"" state "\",\"mtu\":4096,\"gid\":\"::1\","             \
	"\"speed_mbps\":" gbps "000}"
#define A                                                                      \
	OF("a.SOUT", "SOUT", "rdma:mlx5_0:1", "400", "active")                 \
	"," OF("a.SUP", "SUP", "rdma:mlx5_1:1", "400", "active") ","
#define B_SUP "," OF("b.SUP", "SUP", "rdma:mlx5_0:1", "400", "active") "]"
#define NICE_OF_MINUS_5                                                        \
	"1 (a b) c) S 1 1 1 0 -1 4194560 1 0 0 0 5 3 0 0 20 -5 3 0 64 0 0\n"
#define THROTTLED                                                              \
	"usage_usec 7\nnr_periods 9\nnr_throttled 7\nthrottled_usec 2500000\n"
#define NICE_OF_19                                                             \
	"1 (a b) c) S 1 1 1 0 -1 4194560 1 0 0 0 5 3 0 0 20 19 3 0 64 0 0\n"

static const struct patient {
	const char *name;
	const char *rails;
	mpib_check_fn *check[3];
	const char *file[10]; /* path, text, path, text, ... */
	const char *found[10];
	const char *absent[3];
	int findings; /* expected number of findings; 0: any */
	/* texts that replace the usual answers; NULL: the usual answer */
	const char *version, *peers, *sysfs;
	int abi;
} patients[] = {
	{ .name = "good rails",
	  .rails = "[" SOUT("rdma:mlx5_0", "active") "]",
	  .check = { mpib_check_rails, mpib_check_numa },
	  .found = { "OK|rail SOUT|400 Gb/sec",
		     "OK|NUMA|mlx5_0 is on node 0, as is a GPU",
		     "WARN|rails|only one" },
	  .findings = 3 },
	{ .name = "a machine with every fault of a rail",
	  .rails = "[" RAIL("SOUT", "rdma:mlx5_0", "down", "4096",
			    "::", "3") "," FAULTY_SUP "]",
	  .check = { mpib_check_rails, mpib_check_numa },
	  .found = { "FAIL|rail SOUT|is down", "FAIL|rail SOUT|no GID",
		     "NOTE|rail SOUT|3 completions", "WARN|rail SUP|one lane",
		     "WARN|rail SUP|width 8 of 16", "WARN|rail SUP|MTU of 1024",
		     "WARN|rail SUP|its own link only",
		     "WARN|rails|MTUs differ",
		     "WARN|NUMA|node 1, but no GPU is" } },
	{ .name = "a software rail beside RDMA devices",
	  .rails = "[" SOUT("soft:127.0.0.1", "active") "]",
	  .check = { mpib_check_rails },
	  .found = { "WARN|rails|for trials", "WARN|rails|has RDMA devices" } },
	{ .name = "a software rail alone",
	  .rails = "[" SOUT("soft:127.0.0.1", "active") "]",
	  .check = { mpib_check_rails },
	  .absent = { "WARN|rails|has RDMA devices" },
	  .sysfs = "/nonexistent" },
	{ .name = "a broken lane, and a proxy of the same version",
	  .rails = "[]",
	  .check = { mpib_check_lanes, mpib_check_versions },
	  .found = { "WARN|lanes|1 of 2 are broken",
		     "OK|versions|" MPIB_VERSION } },
	{ .name = "a rail whose port is active, but which a lane does not use",
	  .rails = "[" SOUT("rdma:mlx5_0:1", "active") "]",
	  .check = { mpib_check_lanes },
	  .found = { "WARN|lanes|the lane to 10.0.0.9:1 does not use its rail "
		     "sout" } },
	{ .name = "a rail whose port is down, so that no lane uses it",
	  .rails = "[" SOUT("rdma:mlx5_0:1", "down") "]",
	  .check = { mpib_check_lanes },
	  .absent = { "WARN|lanes|the lane to" } },
	{ .name = "another version",
	  .rails = "[]",
	  .check = { mpib_check_versions },
	  .version = "0.0.1",
	  .found = { "NOTE|versions|the proxy is 0.0.1" } },
	{ .name = "another ABI",
	  .rails = "[]",
	  .check = { mpib_check_versions },
	  .abi = 99,
	  .found = { "FAIL|versions|ABI 99" } },
	{ .name = "a peer whose link is refused",
	  .rails = "[]",
	  .check = { mpib_check_peers },
	  .peers = "[{\"peer\":\"10.0.0.1:1\",\"refused\":null},"
		   "{\"peer\":\"10.0.0.2\",\"refused\":{\"count\":7,"
		   "\"age_s\":3.0,\"why\":\"it does not know the key "
		   "(give both the same peer.key_file)\"}}]",
	  .found = { "WARN|peers|10.0.0.2 was refused 7 times, last 3 s ago: "
		     "it does not know the key" },
	  .findings = 1 },
	{ .name = "a lost device",
	  .rails = "[" SOUT("rdma:mlx5_0", "lost") "]",
	  .check = { mpib_check_rails },
	  .found = { "FAIL|rail SOUT|its port was down at the start" },
	  .absent = { "FAIL|rail SOUT|is down" } },
	{ .name = "a GPU of another vendor",
	  .rails = "[" RAIL("SUP", "rdma:mlx5_1:2", "active", "4096",
			    "::ffff:10.0.0.1", "0") "]",
	  .check = { mpib_check_numa },
	  .file = { "bus/pci/devices/0000:99:00.0/vendor", "0x1002\n",
		    "bus/pci/devices/0000:99:00.0/class", "0x120000\n",
		    "bus/pci/devices/0000:99:00.0/numa_node", "1\n" },
	  .found = { "OK|NUMA|mlx5_1 is on node 1, as is a GPU" } },
	{ .name = "enough CPU",
	  .rails = "[]",
	  .check = { mpib_check_cpu },
	  .file = { "1/stat", NICE_OF_MINUS_5, "1/cgroup", "0::/system/mpib\n",
		    "fs/cgroup/system/mpib/cpu.stat", "nr_throttled 0\n" },
	  .found = { "OK|cpu|nice -5, never throttled" } },
	{ .name = "a proxy that is throttled together with its pod",
	  .rails = "[]",
	  .check = { mpib_check_cpu },
	  .file = { "1/stat", NICE_OF_19, "1/cgroup", "0::/pods/pod/mpib\n",
		    "fs/cgroup/pods/pod/cpu.stat", THROTTLED },
	  .found = { "WARN|cpu|at nice 19",
		     "WARN|cpu|throttled 7 times, for 2.5 s" } },
	{ .name = "a port below its speed",
	  .rails = EXPECTED("800000"),
	  .check = { mpib_check_rails },
	  .found = { "WARN|rail SOUT|PORT AT 400 of 800 Gb/s" } },
	{ .name = "a port at its speed",
	  .rails = EXPECTED("400000"),
	  .check = { mpib_check_rails },
	  .file = { "class/infiniband/mlx5_0/ports/1/link_layer",
		    "Ethernet\n" },
	  .found = { "OK|rail SOUT|400 Gb/sec (4X NDR), Ethernet" },
	  .absent = { "WARN|rail SOUT|" } },
	{ .name = "two devices that share their HCAs; faults are reported once",
	  .rails = "[" A OF("b.SOUT", "SOUT", "rdma:mlx5_1:1", "400", "active")
		  B_SUP,
	  .check = { mpib_check_devices, mpib_check_rails, mpib_check_numa },
	  .found = { "OK|devices|there are 2", "WARN|rail a.SUP|",
		     "OK|NUMA|a.SOUT: mlx5_0" },
	  .absent = { "WARN|rail b.SOUT|", "OK|NUMA|b.SUP",
		      "WARN|rails|only one" } },
	{ .name = "two devices of different speed",
	  .rails = "[" A OF("b.SOUT", "SOUT", "rdma:mlx5_1:1", "200", "active")
		  B_SUP,
	  .check = { mpib_check_devices },
	  .found = { "WARN|devices|b.SOUT has 200 Gb/s and a.SOUT 400" } },
	{ .name = "two devices with one SOUT",
	  .rails = "[" A OF("b.SOUT", "SOUT", "rdma:mlx5_0:1", "200", "down")
		  B_SUP,
	  .check = { mpib_check_devices },
	  .found = { "WARN|devices|a.SOUT and b.SOUT are both rdma:mlx5_0:1" },
	  .absent = { "WARN|devices|Gb/s" } },
	{ .name = "two devices without SUP",
	  .rails = "[" OF("a.SOUT", "SOUT", "rdma:mlx5_0:1", "400",
			  "active") "," OF("b.SOUT", "SOUT", "rdma:mlx5_1:1",
					   "400", "active") "]",
	  .check = { mpib_check_rails },
	  .found = { "WARN|rails|each device has only one" } },
};

static void examine(const struct patient *p)
{
	struct mpib_doctor d = patient_of(p->rails);

	print_message("%s\n", p->name);
	for (unsigned i = 0; i < 10 && p->file[i]; i += 2)
		scratch_write(p->file[i], p->file[i + 1]);
	if (p->sysfs)
		d.sysfs = p->sysfs;
	if (p->version)
		json_object_set_new(d.greeting, "mpib",
				    json_string(p->version));
	if (p->abi)
		json_object_set_new(d.info, "abi", json_integer(p->abi));
	if (p->peers)
		d.peers = json_loads(p->peers, 0, NULL);
	for (unsigned i = 0; i < 3 && p->check[i]; i++)
		p->check[i](&d);
	for (unsigned i = 0; i < 10 && p->found[i]; i++)
		assert_found(&d, p->found[i]);
	for (unsigned i = 0; i < 3 && p->absent[i]; i++) {
		if (has(&d, p->absent[i]))
			fail_msg("there is %s", p->absent[i]);
	}
	if (p->findings)
		assert_int_equal(json_array_size(d.findings), p->findings);
	release(&d);
}

TEST(each_faulty_machine_has_its_findings)
{
	for (unsigned i = 0; i < sizeof(patients) / sizeof(patients[0]); i++) {
		make_machine(state);
		examine(&patients[i]);
		scratch_remove(state);
	}
}

/* The doctor must try exactly the names that NCCL's openPluginLib() tries. */
CASE(a_plugin_is_searched_for_as_nccl_does)
{
	static const struct {
		const char *named, *tried;
		bool other; /* NCCL also tries libnccl-net-NAME.so */
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
		char want[160];

		setenv("NCCL_NET_PLUGIN", cases[i].named, 1);
		mpib_check_plugin(&d);
		snprintf(want, sizeof(want), "FAIL|plugin|%s", cases[i].tried);
		assert_found(&d, want);
		found = json_string_value(
			json_object_get(json_array_get(d.findings, 0), "what"));
		assert_non_null(found);
		assert_int_equal(strstr(found, "libnccl-net-") != NULL,
				 cases[i].other);
		release(&d);
	}
	unsetenv("NCCL_NET_PLUGIN");
}

CASE(without_a_proxy_only_its_absence_is_reported)
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
	assert_found(&d, "FAIL|socket|/x/stats.sock: refused");
	assert_string_equal(json_string_value(json_object_get(
				    json_array_get(d.findings, 0), "fix")),
			    "start it");
	json_decref(d.findings);
}

CASE(the_limit_of_locked_memory_is_checked_only_with_hardware)
{
	struct mpib_doctor d = patient_of("[" RAIL(
		"SOUT", "rdma:mlx5_0", "active", "4096", "::1", "0") "]");

	/* Check the limit of this process. */
	json_object_set_new(d.greeting, "pid", json_integer(getpid()));
	mpib_check_memlock(&d);
	assert_int_equal(json_array_size(d.findings), 1);
	assert_false(has(&d, "OK|memlock|software"));
	release(&d);
}

/* Write the first `n` bytes of the configuration space of a bridge above
 * mlx5_0. */
static void put_bridge(const uint8_t *config, size_t n)
{
	FILE *f = fopen(scratch_path("class/infiniband/config"), "w");

	assert_non_null(f);
	assert_int_equal(fwrite(config, 1, n, f), n);
	fclose(f);
}

CASE(acs_of_a_bridge_and_the_iommu_are_reported)
{
	/* The list of capabilities has another capability at 0x100, and ACS at
	 * 0x140 as its last entry. */
	uint8_t config[4096] = {
		[0x100] = 0x01, [0x103] = 0x14, [0x140] = 0x0d, [0x146] = 0x1d
	};
	struct mpib_doctor d = patient_of(EXPECTED("800000"));

	scratch_write("class/infiniband/mlx5_0/device/iommu_group/type",
		      "DMA-FQ\n");
	put_bridge(config, sizeof(config));
	mpib_check_rails(&d);
	assert_found(&d, "WARN|rail SOUT|ACS of bridge infiniband");
	assert_found(&d, "NOTE|rail SOUT|IOMMU translates");
	/* The doctor finds no ACS in four cases: the file has only the part
	 * that all users can read, the file ends within the capability, ACS is
	 * off, or the list has a loop. */
	for (unsigned i = 0; i < 4; i++) {
		static const size_t size[] = { 64, 0x145, 4096, 4096 };

		config[0x146] = i == 2 ? 0x11 : 0x1d;
		config[0x140] = i == 3 ? 0x0e : 0x0d;
		config[0x143] = i == 3 ? 0x10 : 0;
		put_bridge(config, size[i]);
		json_array_clear(d.findings);
		mpib_check_rails(&d);
		assert_false(has(&d, "WARN|rail SOUT|ACS"));
	}
	release(&d);
}

/* Prepare the doctor for a machine without a running proxy. The script replaces
 * mpib-proxy --check-config. */
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

CASE(without_a_proxy_its_settings_are_checked)
{
	struct mpib_doctor d = absent("#!/bin/sh\n"
				      "[ \"$1\" = --check-config ]\n");

	mpib_check_settings(&d);
	assert_found(&d, "OK|settings|would start");
	assert_int_equal(json_array_size(d.findings), 1);
	release(&d);
}

CASE(settings_that_would_prevent_a_start_are_reported)
{
	/* The doctor sets MPIB_LOG_FORMAT, so that the errors are text even
	 * with log.format = json in the file. */
	struct mpib_doctor d = absent(
		"#!/bin/sh\n"
		"[ \"$MPIB_LOG_FORMAT\" = text ] ||\n"
		"	{ echo '{\"message\":\"a is b\"}' >&2; exit 78; }\n"
		"echo 'mpib-proxy: /etc/mpib/mpib.conf: a is b (do c)' >&2\n"
		"echo 'mpib-proxy: more' >&2; exit 78\n");
	const json_t *first;

	mpib_check_settings(&d);
	assert_int_equal(json_array_size(d.findings), 2);
	assert_found(&d, "FAIL|settings|/etc/mpib/mpib.conf: a is b");
	assert_found(&d, "FAIL|settings|more");
	first = json_array_get(d.findings, 0);
	assert_string_equal(mpib_json_str(first, "fix"), "do c");
	mpib_check_rails(&d);
	mpib_check_numa(&d);
	assert_int_equal(json_array_size(d.findings), 2);
	release(&d);

	d = absent("#!/bin/sh\n");
	d.proxy = "/nonexistent/mpib-proxy";
	mpib_check_settings(&d);
	assert_int_equal(json_array_size(d.findings), 1);
	assert_found(&d, "NOTE|settings|/nonexistent/mpib-proxy");
	assert_null(d.rails);
	release(&d);
}

CASE(only_a_rank_needs_the_plugin)
{
	struct mpib_doctor d = patient_of("[]");

	unsetenv("NCCL_NET_PLUGIN");
	unsetenv("SLURM_PROCID");
	mpib_check_plugin(&d);
	assert_found(&d, "OK|plugin|not part of a rank");
	setenv("SLURM_PROCID", "0", 1);
	mpib_check_plugin(&d);
	assert_found(&d, "WARN|plugin|not set in this rank");
	unsetenv("SLURM_PROCID");
	release(&d);
}
