/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <signal.h>

int mpib_thread_create(pthread_t *thread, const pthread_attr_t *attr,
		       void *(*run)(void *), void *arg)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGFPE,
				   SIGILL,  SIGSYS, SIGTRAP };
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	for (unsigned i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(&all, own[i]);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(thread, attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -rc;
}
