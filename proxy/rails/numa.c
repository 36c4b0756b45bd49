/* SPDX-License-Identifier: Apache-2.0 */
/* The distance of two NUMA nodes, asked of hwloc. */
#include "rails/numa.h"

#include <hwloc.h>
#include <hwloc/distances.h>
#include <hwloc/glibc-sched.h>
#include <stdbool.h>

#define SAME 10
#define OTHER 20 /* for two nodes of unknown distance */

static int index_of(const struct hwloc_distances_s *d, int node)
{
	for (unsigned i = 0; i < d->nbobjs; i++) {
		if (d->objs[i] && d->objs[i]->os_index == (unsigned)node)
			return (int)i;
	}
	return -1;
}

static unsigned numa_ask(hwloc_topology_t topology, int a, int b)
{
	struct hwloc_distances_s *d = NULL;
	unsigned nr = 1, found = OTHER;
	int i, j;

	if (hwloc_distances_get_by_name(topology, "NUMALatency", &nr, &d, 0) <
		    0 ||
	    nr == 0 || !d)
		return OTHER;
	i = index_of(d, a);
	j = index_of(d, b);
	if (i >= 0 && j >= 0)
		found = (unsigned)d
				->values[(unsigned)i * d->nbobjs + (unsigned)j];
	hwloc_distances_release(topology, d);
	return found;
}

/* Loaded when first asked for. Start-up is one thread. */
static hwloc_topology_t machine;

static bool numa_load(void)
{
	if (machine)
		return true;
	if (hwloc_topology_init(&machine) < 0) {
		machine = NULL;
		return false;
	}
	if (hwloc_topology_load(machine) == 0)
		return true;
	mpib_numa_forget();
	return false;
}

unsigned mpib_numa_distance(int a, int b)
{
	if (a == b || a < 0 || b < 0)
		return SAME;
	return numa_load() ? numa_ask(machine, a, b) : OTHER;
}

bool mpib_numa_cpus(int node, cpu_set_t *cpus)
{
	hwloc_obj_t at;
	cpu_set_t own;

	if (node < 0 || !numa_load() ||
	    hwloc_get_nbobjs_by_type(machine, HWLOC_OBJ_NUMANODE) < 2)
		return false;
	at = hwloc_get_numanode_obj_by_os_index(machine, (unsigned)node);
	if (!at ||
	    hwloc_cpuset_to_glibc_sched_affinity(machine, at->cpuset, cpus,
						 sizeof(*cpus)) < 0 ||
	    sched_getaffinity(0, sizeof(own), &own) < 0)
		return false;
	CPU_AND(cpus, cpus, &own);
	return CPU_COUNT(cpus) > 0;
}

void mpib_numa_forget(void)
{
	if (machine)
		hwloc_topology_destroy(machine);
	machine = NULL;
}
