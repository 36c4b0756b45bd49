/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_PROXY_RAILS_NUMA_H
#define MPIB_PROXY_RAILS_NUMA_H

/*
 * As the firmware tells it, in its units: 10 is a node to itself, 20 and more
 * another socket. A node that is unknown (-1) is as near as any. Loads
 * hwloc's topology each time. Start-up.
 */
unsigned mpib_numa_distance(int a, int b);

#endif
