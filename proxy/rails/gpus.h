/* SPDX-License-Identifier: Apache-2.0 */
/* The places of this machine's GPUs in the tree of PCI bridges. */
#ifndef MPIB_PROXY_RAILS_GPUS_H
#define MPIB_PROXY_RAILS_GPUS_H

#include <stdbool.h>

#define MPIB_GPUS_MAX 64

struct mpib_gpus {
	unsigned n;
	char place[MPIB_GPUS_MAX][128]; /* path of the GPU's PCI root port */
};

/* Call fn(arg, dev) for each display controller and accelerator of NVIDIA and
 * AMD. `dev` is the device's path below `sysfs`, which is "/sys". For tools and
 * for start-up only. */
void mpib_gpus_each(const char *sysfs, void (*fn)(void *arg, const char *dev),
		    void *arg);
/* Find the places of the GPUs. GPUs without a root port are not counted. */
void mpib_gpus_find(struct mpib_gpus *g, const char *sysfs);
/* Return whether a GPU is below the same root port as the device at pci_path, a
 * path in sysfs without links. */
bool mpib_gpus_near(const struct mpib_gpus *g, const char *pci_path);
/* Return the path between two PCI devices, in the terms of nvidia-smi topo: PIX
 * (one switch), PXB (several), PHB (a host bridge), NODE or SYS. a and b are
 * paths in sysfs without links; same_node: both are on one NUMA node. */
const char *mpib_pci_way(const char *a, const char *b, bool same_node);

#endif
