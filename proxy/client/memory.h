/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory this process may use. Control thread. */
#ifndef MPIB_PROXY_CLIENT_MEMORY_H
#define MPIB_PROXY_CLIENT_MEMORY_H

#include <stdint.h>

/* Bytes: the machine's memory, or the least limit of the memory cgroups that
 * this process is in, if that is less. */
uint64_t mpib_memory_bound(void);
/* The same, from a file like /proc/self/cgroup, cgroups mounted below root and
 * that much memory of the machine. */
uint64_t mpib_memory_bound_of(const char *cgroups, const char *root,
			      uint64_t machine);

#endif
