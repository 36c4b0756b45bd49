/* SPDX-License-Identifier: Apache-2.0 */
/* client/quota.h: the lowest memory limit of the proxy's cgroups, in version 1
 * and version 2. */
#include "client/quota.h"

#include <stdio.h>

#include "scratch.h"
#include "test.h"

#define MACHINE (UINT64_C(1) << 40)

static uint64_t bound(void)
{
	char cgroups[160];

	snprintf(cgroups, sizeof(cgroups), "%s", scratch_path("cgroup"));
	return mpib_memory_bound_of(cgroups, scratch, MACHINE);
}

#define CASE(name) TEST_OF(name, scratch_make, scratch_remove)

CASE(without_a_limit_the_machines_memory_is_the_limit)
{
	assert_true(bound() == MACHINE); /* the cgroup file does not exist */
	scratch_write("cgroup", "0::/a/b\n");
	assert_true(bound() == MACHINE);
	scratch_write("memory.max", "max\n");
	assert_true(bound() == MACHINE);
}

CASE(the_lowest_limit_up_to_the_root_cgroup_counts)
{
	scratch_write("cgroup", "1:cpu:/x\n0::/a/b\n");
	scratch_write("a/b/memory.max", "max\n");
	scratch_write("a/memory.max", "3000000\n");
	assert_true(bound() == 3000000);
	scratch_write("a/b/memory.max", "2000000\n");
	assert_true(bound() == 2000000);
	scratch_write("memory.max", "1000000\n");
	assert_true(bound() == 1000000);
}

CASE(limits_of_cgroup_version_1_are_read_too)
{
	scratch_write("cgroup", "4:memory:/a\n0::/\n");
	scratch_write("memory/memory.limit_in_bytes", "9223372036854771712\n");
	assert_true(bound() == MACHINE);
	scratch_write("memory/a/memory.limit_in_bytes", "314572800\n");
	assert_true(bound() == 314572800);
}
