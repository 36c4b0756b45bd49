/* SPDX-License-Identifier: Apache-2.0 */
#include "base/numa.h"

#include <linux/mempolicy.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NODES 1024u /* the most that Linux is built for */
#define BITS (8 * sizeof(unsigned long))

void mpib_numa_prefer(void *addr, size_t len, int node)
{
	unsigned long mask[NODES / BITS] = { 0 };
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t at = (uintptr_t)addr & ~(page - 1);

	if (node < 0 || (unsigned)node >= NODES)
		return;
	mask[(unsigned)node / BITS] = 1ul << (unsigned)node % BITS;
	/* The kernel takes the number of bits for one less than it is. */
	(void)syscall(SYS_mbind, at, (uintptr_t)addr + len - at, MPOL_PREFERRED,
		      mask, NODES + 1, 0);
}
