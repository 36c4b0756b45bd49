/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which HCAs carry rails if the configuration names none. Ports of one card,
 * and its virtual functions, are one HCA.
 */
#ifndef MPIB_PROXY_RAILS_DISCOVER_H
#define MPIB_PROXY_RAILS_DISCOVER_H

#include "rails/filter.h"
#include "verbs/rdma/rdma.h"

#define MPIB_HCAS_MAX 16u

/* The distance of two NUMA nodes in hwloc's units: 10 is the same node. */
typedef unsigned mpib_numa_fn(int a, int b);

/* HCAs by PCI place, so that nodes of one kind number them alike. */
struct mpib_hcas {
	unsigned n;
	unsigned fastest; /* the first of those */
	struct mpib_hca {
		unsigned port; /* index of the port that stands for it */
		/* Number of the HCA that it makes a pair with. Of an odd number
		 * of HCAs one's neighbour has another; a single HCA's is its
		 * own number. */
		unsigned neighbour;
	} hca[MPIB_HCAS_MAX];
};

/*
 * Choose HCAs among n ports; near[i]: a GPU is behind port i's PCI root port.
 *
 * A card's fastest ACTIVE port stands for it, or its first where none is; of a
 * single card each ACTIVE port counts as an HCA, unless it is a virtual function.
 * Where some ACTIVE HCAs have a GPU near, or none is ACTIVE and some have, those
 * without are left out, as they serve storage. All have one link layer,
 * that with the most speed in sum, and at least a quarter of the fastest one's
 * speed. An HCA without an ACTIVE port stays if it is of the model of one that
 * has: it will be there later, and other nodes count it. Ports without hardware
 * are never chosen. Neighbours are on one NUMA node where that can be.
 *
 * why[i] is NULL for a port that was chosen, else the rest of "mlx5_1:1 ...".
 */
void mpib_hcas_choose(const struct mpib_rdma_port *port, const bool *near,
		      unsigned n, mpib_numa_fn *distance, struct mpib_hcas *out,
		      const char **why);

/* The same with names, as "rdma:mlx5_0:1". */
struct mpib_found {
	unsigned n, fastest;
	struct {
		char name[80];
		unsigned neighbour;
	} hca[MPIB_HCAS_MAX];
};

/*
 * Choose among the ports of this machine that filter allows. Returns the number
 * of HCAs. note says why the remaining ports were not taken: "mlx5_1:1 is not
 * active, rxe0:1 has no hardware behind it". Called at start-up.
 */
unsigned mpib_rails_discover(const struct mpib_hca_filter *filter,
			     struct mpib_found *found, char *note,
			     size_t note_len);

#endif
