/* SPDX-License-Identifier: Apache-2.0 */
/* Threads, and the error text of each thread (mpib_strerror()). The simulator
 * replaces this file. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ipc/client.h"

/* With a C library older than 2.34, a program may be linked without libpthread.
 * Therefore these symbols are weak. The directives below request a symbol
 * version that both old and new C libraries have. */
#pragma weak pthread_create
#pragma weak pthread_join
#pragma weak pthread_mutex_trylock
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
/* The sanitizers' runtime library defines these functions. */
#elif defined(__GLIBC__) && defined(__x86_64__)
__asm__(".symver pthread_create, pthread_create@GLIBC_2.2.5");
__asm__(".symver pthread_join, pthread_join@GLIBC_2.2.5");
__asm__(".symver pthread_mutex_trylock, pthread_mutex_trylock@GLIBC_2.2.5");
#elif defined(__GLIBC__) && defined(__aarch64__)
__asm__(".symver pthread_create, pthread_create@GLIBC_2.17");
__asm__(".symver pthread_join, pthread_join@GLIBC_2.17");
__asm__(".symver pthread_mutex_trylock, pthread_mutex_trylock@GLIBC_2.17");
#endif

int mpib_thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
	sigset_t all, old;
	int rc;

	if (!pthread_create || !pthread_join)
		return -ENOSYS;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(thread, NULL, run, arg);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return -rc;
}

void mpib_thread_join(pthread_t thread)
{
	pthread_join(thread, NULL);
}

bool mpib_mutex_try(pthread_mutex_t *mutex)
{
	/* A program without libpthread has no pthread_mutex_trylock(). It also
	 * has only one thread, so pthread_mutex_lock() does not wait. */
	if (!pthread_mutex_trylock)
		return pthread_mutex_lock(mutex) == 0;
	return pthread_mutex_trylock(mutex) == 0;
}

static __thread char last[320];

int mpib_fail(int rc, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(last, sizeof(last), fmt, ap);
	va_end(ap);
	return rc;
}

const char *mpib_errtext(int rc)
{
	/* The GNU version of strerror_r() returns a constant text, or `buf`. */
	static _Thread_local char buf[64];

	return strerror_r(-rc, buf, sizeof(buf));
}

const char *mpib_strerror(void)
{
	return last[0] ? last : "no error";
}
