/* SPDX-License-Identifier: Apache-2.0 */
#include "patient.h"

#include <mpib/abi.h>
#include <stdio.h>

#include "scratch.h"
#include "test.h"

int patient_machine(void **state)
{
	int rc = scratch_make(state);

	scratch_write("class/infiniband/mlx5_0/ports/1/rate",
		      "400 Gb/sec (4X NDR)\n");
	scratch_write("class/infiniband/mlx5_0/device/numa_node", "0\n");
	scratch_write("class/infiniband/mlx5_0/device/current_link_speed",
		      "32.0 GT/s\n");
	scratch_write("class/infiniband/mlx5_0/device/max_link_speed",
		      "32.0 GT/s\n");
	scratch_write("class/infiniband/mlx5_0/device/current_link_width",
		      "16\n");
	scratch_write("class/infiniband/mlx5_0/device/max_link_width", "16\n");
	scratch_write("class/infiniband/mlx5_1/ports/2/rate",
		      "100 Gb/sec (1X NDR)\n");
	scratch_write("class/infiniband/mlx5_1/device/numa_node", "1\n");
	scratch_write("class/infiniband/mlx5_1/device/current_link_width",
		      "8\n");
	scratch_write("class/infiniband/mlx5_1/device/max_link_width", "16\n");
	scratch_write("devices/system/node/node0/distance", "10 21\n");
	scratch_write("devices/system/node/node1/distance", "21 10\n");
	scratch_write("bus/pci/devices/0000:17:00.0/vendor", "0x10de\n");
	scratch_write("bus/pci/devices/0000:17:00.0/class", "0x030200\n");
	scratch_write("bus/pci/devices/0000:17:00.0/numa_node", "0\n");
	scratch_write("bus/pci/devices/0000:18:00.0/vendor", "0x8086\n");
	return rc;
}

struct mpib_doctor patient_of(const char *rails)
{
	struct mpib_doctor d = { .sysfs = scratch,
				 .proc = scratch,
				 .findings = json_array() };

	d.greeting = json_pack("{ss sI}", "mpib", MPIB_VERSION, "pid",
			       (json_int_t)1);
	d.info = json_pack("{sI}", "abi", (json_int_t)MPIB_ABI_VERSION);
	d.lanes = json_loads("[{\"broken\":false},{\"broken\":true}]", 0, NULL);
	d.rails = json_loads(rails, 0, NULL);
	assert_non_null(d.rails);
	return d;
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

void patient_release(struct mpib_doctor *d)
{
	assert_remedies(d);
	json_decref(d->greeting);
	json_decref(d->info);
	json_decref(d->lanes);
	json_decref(d->rails);
	json_decref(d->findings);
}

bool patient_has(const struct mpib_doctor *d, const char *status,
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

void assert_found(const struct mpib_doctor *d, const char *status,
		  const char *check, const char *part)
{
	char *all;

	if (patient_has(d, status, check, part))
		return;
	all = json_dumps(d->findings, JSON_INDENT(1));
	fail_msg("no %s %s with \"%s\" in %s", status, check, part, all);
}
