/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <linux/mempolicy.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

int mpib_thread_create(pthread_t *thread, void *(*run)(void *), void *arg)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGFPE,
				   SIGILL,  SIGSYS, SIGTRAP };
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t detached;
	int rc;

	sigfillset(&all);
	for (unsigned i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(&all, own[i]);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	if (!thread)
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rc = pthread_create(thread ? thread : &detached, &attr, run, arg);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -rc;
}

#define NODES 1024u /* the maximum that Linux can be configured for */
#define BITS (8 * sizeof(unsigned long))

void mpib_numa_prefer(void *addr, size_t len, int node)
{
	unsigned long mask[NODES / BITS] = { 0 };
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t at = (uintptr_t)addr & ~(page - 1);

	if (node < 0 || (unsigned)node >= NODES)
		return;
	mask[(unsigned)node / BITS] = 1ul << (unsigned)node % BITS;
	/* The kernel reads one bit less than the number passed. */
	(void)syscall(SYS_mbind, at, (uintptr_t)addr + len - at, MPOL_PREFERRED,
		      mask, NODES + 1, 0);
}
