/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_PROXY_RAILS_NUMA_H
#define MPIB_PROXY_RAILS_NUMA_H

#include <sched.h>
#include <stdbool.h>

/*
 * The distance of two NUMA nodes in the firmware's units: 10 is the same node,
 * 20 or more another socket. 10 also if a or b is unknown (-1). Loads hwloc's
 * topology, which takes its time: for start-up only, on one thread.
 */
unsigned mpib_numa_distance(int a, int b);
/* Set the CPUs of a NUMA node that this process may use. False: there are none,
 * or the machine has one node, so that all CPUs are as near. As above. */
bool mpib_numa_cpus(int node, cpu_set_t *cpus);
/* Free the topology that both loaded. */
void mpib_numa_forget(void);

#endif
