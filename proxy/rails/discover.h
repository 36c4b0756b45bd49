/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice of HCAs for the rails if the configuration names none. The ports
 * of one card and its virtual functions are one HCA.
 */
#ifndef MPIB_PROXY_RAILS_DISCOVER_H
#define MPIB_PROXY_RAILS_DISCOVER_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "verbs/rdma/rdma.h"
#include "verbs/verbs.h"

#define MPIB_HCAS_MAX 16u

/* The distance of two NUMA nodes in hwloc's units: 10 is the same node. */
typedef unsigned mpib_numa_fn(int a, int b);

/* HCAs in PCI order, so that nodes with the same hardware number them alike. */
struct mpib_hcas {
	unsigned n;
	unsigned fastest; /* the first one with the highest speed */
	struct mpib_hca {
		unsigned port; /* index of the port that represents the HCA */
		/* Index of the HCA's partner. With an odd number of HCAs, two
		 * of them have the same partner. A single HCA is its own
		 * partner. */
		unsigned neighbour;
	} hca[MPIB_HCAS_MAX];
};

/*
 * Choose HCAs among n ports. near[i]: a GPU is below port i's PCI root port.
 *
 * A card is represented by its fastest ACTIVE port, or by its first port if
 * none is ACTIVE. If there is only one card, each of its ACTIVE ports counts as
 * an HCA, except virtual functions. If an ACTIVE HCA has a GPU near it, HCAs
 * without a GPU near them are excluded, because they serve storage. If no HCA
 * is ACTIVE, a GPU near any HCA is enough. All chosen HCAs have the same link
 * layer: the one whose ports have the highest total speed. Each has at least a
 * quarter of the speed of the fastest HCA. An HCA without an ACTIVE port is
 * chosen if an ACTIVE HCA is of the same model: its port may come up later, and
 * nodes with the same hardware must number their HCAs alike. Ports without
 * hardware are never chosen. Partners are on one NUMA node if possible.
 *
 * why[i] is NULL for a chosen port. For other ports, it is the end of a
 * sentence that begins with the port's name, such as "is not active".
 */
void mpib_hcas_choose(const struct mpib_rdma_port *port, const bool *near,
		      unsigned n, mpib_numa_fn *distance, struct mpib_hcas *out,
		      const char **why);

/*
 * The ports that discovery may choose, in the syntax of NCCL_IB_HCA:
 *
 *   mlx5            ports of all devices whose names begin with "mlx5"
 *   =mlx5_0         ports of the device with exactly that name
 *   mlx5_0:1,mlx5_1 port 1 of mlx5_0* and all ports of mlx5_1*
 *   ^mlx5_3         all ports except those of mlx5_3*
 *   ^=mlx5_3        all ports except those of the device mlx5_3
 *   mlx5_0:1:0:2    NCCL 2.30's numbers of rail and plane, which are ignored
 *                   here; the port may be empty
 */

#define MPIB_HCA_FILTERS 32u

struct mpib_hca_filter {
	bool except, exact;
	unsigned n; /* 0: all */
	struct mpib_hca_filter_port {
		char name[64];
		uint8_t port; /* 0: any */
	} port[MPIB_HCA_FILTERS];
};

/* Parse `text`; "" allows all ports. Returns 0 or -EINVAL. On -EINVAL, `why`
 * has the fault and the remedy, as part of a sentence. */
int mpib_hca_filter_parse(struct mpib_hca_filter *f, const char *text,
			  char *why, size_t why_len);
bool mpib_hca_filter_allows(const struct mpib_hca_filter *f, const char *name,
			    uint8_t port);

/* The chosen HCAs with names, such as "rdma:mlx5_0:1". */
struct mpib_found {
	unsigned n, fastest;
	struct {
		char name[80];
		unsigned neighbour;
	} hca[MPIB_HCAS_MAX];
};

/*
 * Choose among the ports of this machine that `filter` allows. Returns the
 * number of HCAs. `note` says why the other ports were not chosen: "mlx5_1:1 is
 * not active, rxe0:1 has no hardware behind it". Called at start-up.
 */
unsigned mpib_rails_discover(const struct mpib_hca_filter *filter,
			     struct mpib_found *found, char *note,
			     size_t note_len);

/*
 * Return the distance of two NUMA nodes in the firmware's units: 10 is the same
 * node, 20 or more another socket. If a or b is unknown (-1), return 10. Call
 * it at start-up only, on one thread: it loads hwloc's topology, which is slow.
 */
unsigned mpib_numa_distance(int a, int b);
/* Get those CPUs of a NUMA node that this process may use. Return false if
 * there are none, or if the machine has only one node. Call it at start-up
 * only. */
bool mpib_numa_cpus(int node, cpu_set_t *cpus);
/* Free the topology. */
void mpib_numa_forget(void);

/*
 * Describe a rail's port in one line for the log: "rail SOUT rdma:mlx5_0:1:
 * active, InfiniBand, 400 Gb/s, MTU 4096, LID 12, GID 0 fe80::1, NUMA node 1".
 */
void mpib_rail_describe(const char *label, const char *name,
			const struct mpib_port_info *port, char *buf,
			size_t len);

#endif
