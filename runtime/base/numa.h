/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_BASE_NUMA_H
#define MPIB_BASE_NUMA_H

#include <stddef.h>

/*
 * Have the kernel make the pages that are still to come in [addr, addr + len)
 * on a NUMA node, if it has room; of a memfd also where others touch them
 * first. -1: no node. No error is told: the memory serves anywhere.
 */
void mpib_numa_prefer(void *addr, size_t len, int node);

#endif
