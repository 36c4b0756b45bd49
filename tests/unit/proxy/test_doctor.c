/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/doctor/: what it finds on a machine made up of files and of a proxy's
 * answers, with RDMA devices that the test's machine need not have. */
#include "doctor/doctor.h"

#include <mpib/abi.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "scratch.h"

/* A file below the scratch directory, with the folders that lead to it. */
static void put(const char *name, const char *text)
{
	char path[300];

	snprintf(path, sizeof(path), "%s", scratch_path(name));
	for (char *c = path + strlen(scratch) + 1; (c = strchr(c, '/')); c++) {
		*c = '\0';
		mkdir(path, 0700);
		*c = '/';
	}
	scratch_write(name, text);
}

static int make_machine(void **state)
{
	int rc = scratch_make(state);

	put("class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
	put("class/infiniband/mlx5_0/device/numa_node", "0\n");
	put("class/infiniband/mlx5_0/device/current_link_speed", "32.0 GT/s\n");
	put("class/infiniband/mlx5_0/device/max_link_speed", "32.0 GT/s\n");
	put("class/infiniband/mlx5_0/device/current_link_width", "16\n");
	put("class/infiniband/mlx5_0/device/max_link_width", "16\n");
	put("class/infiniband/mlx5_1/ports/2/rate", "100 Gb/sec (1X NDR)\n");
	put("class/infiniband/mlx5_1/device/numa_node", "1\n");
	put("class/infiniband/mlx5_1/device/current_link_width", "8\n");
	put("class/infiniband/mlx5_1/device/max_link_width", "16\n");
	put("devices/system/node/node0/distance", "10 21\n");
	put("devices/system/node/node1/distance", "21 10\n");
	put("bus/pci/devices/0000:17:00.0/vendor", "0x10de\n");
	put("bus/pci/devices/0000:17:00.0/class", "0x030200\n");
	put("bus/pci/devices/0000:17:00.0/numa_node", "0\n");
	put("bus/pci/devices/0000:18:00.0/vendor", "0x8086\n");
	return rc;
}

#define RAIL(name, dev, state, mtu, gid, errors)                               \
	"{\"name\":\"" name "\",\"device\":\"" dev "\",\"state\":\"" state     \
	"\",\"mtu\":" mtu ",\"gid\":\"" gid "\",\"cqe_errors\":" errors "}"

static struct mpib_doctor patient(const char *rails)
{
	struct mpib_doctor d = { .sysfs = scratch, .findings = json_array() };

	d.greeting = json_pack("{ss sI}", "mpib", MPIB_VERSION, "pid",
			       (json_int_t)1);
	d.info = json_pack("{sI}", "abi", (json_int_t)MPIB_ABI_VERSION);
	d.lanes = json_loads("[{\"broken\":false},{\"broken\":true}]", 0, NULL);
	d.rails = json_loads(rails, 0, NULL);
	assert_non_null(d.rails);
	return d;
}

static void release(struct mpib_doctor *d)
{
	json_decref(d->greeting);
	json_decref(d->info);
	json_decref(d->lanes);
	json_decref(d->rails);
	json_decref(d->findings);
}

static bool has(const struct mpib_doctor *d, const char *status,
		const char *check, const char *part)
{
	const json_t *f;
	size_t i;

	json_array_foreach(d->findings, i, f)
	{
		const char *s = json_string_value(json_object_get(f, "status"));
		const char *c = json_string_value(json_object_get(f, "check"));
		const char *w = json_string_value(json_object_get(f, "what"));

		if (!strcmp(s, status) && !strcmp(c, check) && strstr(w, part))
			return true;
	}
	return false;
}

static void assert_found(const struct mpib_doctor *d, const char *status,
			 const char *check, const char *part)
{
	char *all;

	if (has(d, status, check, part))
		return;
	all = json_dumps(d->findings, JSON_INDENT(1));
	fail_msg("no %s %s with \"%s\" in %s", status, check, part, all);
}

/* Nothing is told without the remedy. */
static void assert_remedies(const struct mpib_doctor *d)
{
	const json_t *f;
	size_t i;

	json_array_foreach(d->findings, i, f)
	{
		bool ok = !strcmp(
			json_string_value(json_object_get(f, "status")), "OK");

		assert_int_equal(ok, json_object_get(f, "fix") == NULL);
	}
}

static void good_rails_are_well(void **state)
{
	struct mpib_doctor d =
		patient("[" RAIL("SOUT", "rdma:mlx5_0", "active", "4096",
				 "::ffff:10.0.0.1", "0") "]");

	(void)state;
	mpib_check_rails(&d);
	mpib_check_numa(&d);
	assert_found(&d, "OK", "rail SOUT", "400 Gb/sec");
	assert_found(&d, "OK", "NUMA", "mlx5_0 is on node 0, as a GPU is");
	/* One rail is one too few. */
	assert_found(&d, "WARN", "rails", "only one");
	assert_int_equal(d.count[MPIB_WARN], 1);
	assert_int_equal(d.count[MPIB_FAIL], 0);
	assert_remedies(&d);
	release(&d);
}

static void each_fault_of_a_rail_is_found(void **state)
{
	struct mpib_doctor d = patient(
		"[" RAIL("SOUT", "rdma:mlx5_0", "down", "4096",
			 "::", "3") "," RAIL("SUP", "rdma:mlx5_1:2", "active",
					     "1024", "fe80::1", "0") "]");

	(void)state;
	mpib_check_rails(&d);
	mpib_check_numa(&d);
	assert_found(&d, "FAIL", "rail SOUT", "is down");
	assert_found(&d, "FAIL", "rail SOUT", "no GID");
	assert_found(&d, "WARN", "rail SOUT", "3 completions");
	assert_found(&d, "WARN", "rail SUP", "one lane");
	assert_found(&d, "WARN", "rail SUP", "width 8 of 16");
	assert_found(&d, "WARN", "rail SUP", "MTU of 1024");
	assert_found(&d, "WARN", "rail SUP", "its own link only");
	assert_found(&d, "WARN", "rails", "MTUs differ");
	assert_found(&d, "WARN", "NUMA", "distance 21");
	assert_remedies(&d);
	release(&d);
}

static void a_software_rail_beside_hardware_is_told(void **state)
{
	struct mpib_doctor d =
		patient("[" RAIL("SOUT", "soft:127.0.0.1", "active", "4096",
				 "::ffff:127.0.0.1", "0") "]");

	(void)state;
	mpib_check_rails(&d);
	assert_found(&d, "WARN", "rails", "has RDMA devices");
	d.sysfs = "/nonexistent";
	json_array_clear(d.findings);
	mpib_check_rails(&d);
	assert_false(has(&d, "WARN", "rails", "has RDMA devices"));
	release(&d);
}

static void broken_lanes_and_other_versions_are_told(void **state)
{
	struct mpib_doctor d = patient("[]");

	(void)state;
	mpib_check_lanes(&d);
	assert_found(&d, "WARN", "lanes", "1 of 2 are broken");
	mpib_check_versions(&d);
	assert_found(&d, "OK", "versions", MPIB_VERSION);
	json_object_set_new(d.greeting, "mpib", json_string("0.0.1"));
	mpib_check_versions(&d);
	assert_found(&d, "WARN", "versions", "the proxy is 0.0.1");
	json_object_set_new(d.info, "abi", json_integer(99));
	mpib_check_versions(&d);
	assert_found(&d, "FAIL", "versions", "ABI 99");
	assert_remedies(&d);
	release(&d);
}

static void without_a_proxy_its_absence_is_all_that_is_told(void **state)
{
	struct mpib_doctor d = { .sysfs = scratch,
				 .reached = MPIB_EXIT_NO_PROXY,
				 .findings = json_array() };

	(void)state;
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

static void the_limit_of_locked_memory_counts_with_hardware(void **state)
{
	struct mpib_doctor d = patient("[" RAIL("SOUT", "rdma:mlx5_0", "active",
						"4096", "::1", "0") "]");

	(void)state;
	/* Ours, whatever it is. */
	json_object_set_new(d.greeting, "pid", json_integer(getpid()));
	mpib_check_memlock(&d);
	assert_int_equal(json_array_size(d.findings), 1);
	assert_false(has(&d, "OK", "memlock", "software"));
	assert_remedies(&d);
	release(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_rails_are_well),
		cmocka_unit_test(each_fault_of_a_rail_is_found),
		cmocka_unit_test(a_software_rail_beside_hardware_is_told),
		cmocka_unit_test(broken_lanes_and_other_versions_are_told),
		cmocka_unit_test(
			without_a_proxy_its_absence_is_all_that_is_told),
		cmocka_unit_test(
			the_limit_of_locked_memory_counts_with_hardware),
	};

	return cmocka_run_group_tests(tests, make_machine, scratch_remove);
}
