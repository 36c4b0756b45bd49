/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which RDMA ports become the rails if the configuration names none.
 */
#ifndef MPIB_PROXY_RAILS_DISCOVER_H
#define MPIB_PROXY_RAILS_DISCOVER_H

#include "rails/filter.h"
#include "verbs/rdma/rdma.h"

/* The distance of two NUMA nodes in hwloc's units: 10 is the same node. */
typedef unsigned mpib_numa_fn(int a, int b);

/*
 * Choose at most `most` (1 or 2) of n ports. A pair must be ACTIVE, have one
 * link layer, and neither port may be slower than a quarter of the other. The
 * choice with the highest sum of speeds wins, so a fast single port may win
 * over a pair; then a pair on two devices over one device, then the pair with
 * the least NUMA distance, then the first in the list. Ports without hardware
 * are never chosen. Returns the number of rails; pick has their indexes in the
 * order of the list.
 */
unsigned mpib_rails_choose(const struct mpib_rdma_port *port, unsigned n,
			   unsigned most, mpib_numa_fn *distance,
			   unsigned pick[2]);

/*
 * Choose rails among the ports of this machine that filter allows. Returns the
 * number of rails; name has their specifications ("rdma:mlx5_0:1"). note says
 * why the remaining ports were not taken: "mlx5_1:1 is not active, rxe0:1 has
 * no hardware behind it". Called at start-up.
 */
unsigned mpib_rails_discover(unsigned most,
			     const struct mpib_hca_filter *filter,
			     char name[2][80], char *note, size_t note_len);

#endif
