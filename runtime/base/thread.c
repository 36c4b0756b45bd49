/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <signal.h>

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
