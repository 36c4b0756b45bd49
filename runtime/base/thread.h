/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that the library starts, in addition to the program's threads. */
#ifndef MPIB_BASE_THREAD_H
#define MPIB_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* Like pthread_create(), but returns 0 or -errno; if thread is NULL, the new
 * thread is detached. The thread blocks signals that are sent to the process,
 * because they are for the program's threads. Signals that the thread itself
 * causes are not blocked. Any thread. */
int mpib_thread_create(pthread_t *thread, void *(*run)(void *), void *arg);

/* Make the kernel prefer this NUMA node for the unallocated pages of [addr,
 * addr + len); for a memfd, even if another thread touches the pages first.
 * `node` -1: do nothing. Errors are ignored, because the memory works on any
 * node. */
void mpib_numa_prefer(void *addr, size_t len, int node);

#endif
