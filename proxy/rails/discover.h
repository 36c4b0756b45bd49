/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ports are the rails where nobody named them.
 */
#ifndef MPIB_PROXY_RAILS_DISCOVER_H
#define MPIB_PROXY_RAILS_DISCOVER_H

#include "rails/filter.h"
#include "verbs/rdma/rdma.h"

/* Between two NUMA nodes, in hwloc's units: 10 is one node. */
typedef unsigned mpib_numa_fn(int a, int b);

/*
 * Of n ports: the two ACTIVE ones of one link layer that are fastest together;
 * of equals, on two devices rather than one, then with the least distance
 * between them, then the first. A port slower than a quarter of the other is
 * no rail beside it, and a pair slower than a single port is no gain. Ports
 * without hardware below are passed over.
 * Returns how many rails there are, at most most (1 or 2), indexes in pick in
 * the order of the list.
 */
unsigned mpib_rails_choose(const struct mpib_rdma_port *port, unsigned n,
			   unsigned most, mpib_numa_fn *distance,
			   unsigned pick[2]);

/*
 * Look at this machine and choose among the ports that filter allows. Returns how many rails, their names as
 * specifications ("rdma:mlx5_0:1"). note says in words why no or no other port
 * was taken: "mlx5_1:1 is down, rxe0:1 has no hardware behind it". Start-up.
 */
unsigned mpib_rails_discover(unsigned most,
			     const struct mpib_hca_filter *filter,
			     char name[2][80], char *note, size_t note_len);

#endif
