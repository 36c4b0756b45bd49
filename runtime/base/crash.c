/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crash.h"

#include <errno.h>
#include <unistd.h>

_Thread_local volatile uint32_t mpib_works_for;

/* copy.c handles SIGBUS. */
static const int signals[] = { SIGSEGV, SIGILL, SIGFPE, SIGABRT };
#define SIGNALS (sizeof(signals) / sizeof(signals[0]))
static struct sigaction before[SIGNALS];
static mpib_crash_fn *crash_fn;
static void *crash_arg;

void mpib_crash_note(const siginfo_t *info)
{
	if (crash_fn && mpib_works_for &&
	    (info->si_code > 0 || info->si_pid == getpid()))
		crash_fn(crash_arg, mpib_works_for);
}

static void on_crash(int sig, siginfo_t *info, void *context)
{
	int saved = errno;

	(void)context;
	mpib_crash_note(info);
	for (unsigned i = 0; i < SIGNALS; i++) {
		if (signals[i] == sig)
			sigaction(sig, &before[i], NULL);
	}
	/* After a fault no raise() is needed, because the access faults
	 * again. */
	if (info->si_code <= 0)
		raise(sig);
	errno = saved;
}

void mpib_crash_catch(mpib_crash_fn *fn, void *arg)
{
	struct sigaction sa = { .sa_sigaction = on_crash,
				.sa_flags = SA_SIGINFO };

	crash_fn = fn;
	crash_arg = arg;
	for (unsigned i = 0; i < SIGNALS; i++)
		sigaction(signals[i], &sa, &before[i]);
}
