/* SPDX-License-Identifier: Apache-2.0 */
#include "base/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

#define OFTEN_NS 1000000

static void interrupted(int sig)
{
	(void)sig;
}

/* Without, a user whose sockets linger can take all threads that close his, and in
 * the end descriptors that others could have. */
static int interrupts_fail(int rc)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&told))
		mpib_warn("closes of users' sockets last as long as these "
			  "linger: no timer: %s (raise LimitSIGPENDING)",
			  strerror(-rc));
	return rc;
}

int mpib_interrupts_begin(timer_t *timer)
{
	const struct sigaction nothing = { .sa_handler = interrupted,
					   .sa_flags = SA_RESTART };
	const struct itimerspec often = {
		.it_value.tv_nsec = OFTEN_NS,
		.it_interval.tv_nsec = OFTEN_NS,
	};
	struct sigevent by = {
		.sigev_notify = SIGEV_THREAD_ID,
		.sigev_signo = SIGURG, /* which does nothing unasked */
		/* sigev_notify_thread_id, which glibc has not always named. */
		._sigev_un._tid = gettid(),
	};
	sigset_t set;

	if (timer_create(CLOCK_MONOTONIC, &by, timer) < 0)
		return interrupts_fail(-errno);
	sigemptyset(&set);
	sigaddset(&set, SIGURG);
	sigaction(SIGURG, &nothing, NULL);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	timer_settime(*timer, 0, &often, NULL);
	return 0;
}
