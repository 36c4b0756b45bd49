/* SPDX-License-Identifier: Apache-2.0 */
/* Where the GPUs of this machine are in the tree of its PCI bridges. */
#ifndef MPIB_PROXY_RAILS_GPUS_H
#define MPIB_PROXY_RAILS_GPUS_H

#include <stdbool.h>

#define MPIB_GPUS_MAX 64

struct mpib_gpus {
	unsigned n;
	char place[MPIB_GPUS_MAX][128]; /* path of the PCI root port above it */
};

/* Look for display controllers and accelerators of NVIDIA and AMD below
 * sysfs, which is "/sys". Those without a root port above them are not
 * counted. Start-up only. */
void mpib_gpus_find(struct mpib_gpus *g, const char *sysfs);
/* Whether one of them is behind the root port that the device at pci_path, a
 * path in sysfs without links, is behind. */
bool mpib_gpus_near(const struct mpib_gpus *g, const char *pci_path);

#endif
