/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library's own, beside those of a program. */
#ifndef MPIB_BASE_THREAD_H
#define MPIB_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/*
 * As pthread_create(), but 0 or -errno; with thread NULL it is a detached one. The
 * signals that somebody sends to the process are for the program's threads alone,
 * which may block them to wait for them; those of what the thread does itself are not
 * blocked. Any thread.
 */
int mpib_thread_create(pthread_t *thread, void *(*run)(void *), void *arg);

/*
 * Have the kernel make the pages that are still to come in [addr, addr + len)
 * on a NUMA node, if it has room; of a memfd also where others touch them
 * first. -1: no node. No error is told: the memory serves anywhere.
 */
void mpib_numa_prefer(void *addr, size_t len, int node);

#endif
