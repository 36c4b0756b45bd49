/* SPDX-License-Identifier: Apache-2.0 */
/* Replacements for functions that the real code calls: threads, time and random
 * numbers. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sim_task.h"
#include "sim_wrap.h"

static struct sim_rng chance = { 1 };
/* time of day at the start of a seed */
static uint64_t epoch = 1700000000 * SIM_S;

void sim_threads_seed(uint64_t seed)
{
	sim_rng_seed(&chance, seed, "getrandom");
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			  void *(*fn)(void *), void *arg)
{
	struct sim_proc *proc = sim_proc_self();
	struct sim_task *t = sim_task_new(proc, proc->name, fn, arg);
	int how = PTHREAD_CREATE_JOINABLE;

	if (attr)
		pthread_attr_getdetachstate(attr, &how);
	t->detached = how == PTHREAD_CREATE_DETACHED;
	*thread = (pthread_t)(uintptr_t)t;
	return 0;
}

pthread_t __wrap_pthread_self(void)
{
	return (pthread_t)(uintptr_t)sim_task_self();
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
	struct sim_task *t = (struct sim_task *)(uintptr_t)thread;

	while (!t->ended)
		sim_wait(sim_now + SIM_US);
	if (result)
		*result = t->result;
	t->detached = true; /* allows the scheduler to free the task */
	return 0;
}

int __wrap_mpib_thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
	return -__wrap_pthread_create(thread, NULL, run, arg);
}

void __wrap_mpib_thread_join(pthread_t thread)
{
	__wrap_pthread_join(thread, NULL);
}

/* The real mpib_keep() keeps copies of descriptors in the descriptor table of
 * another thread. The simulator has one table for all threads of a process, so
 * duplicate the descriptor. */
uint32_t __wrap_mpib_keep(struct mpib_client *c, int fd)
{
	int kept = __wrap_fcntl(fd, F_DUPFD_CLOEXEC, 0);

	(void)c;
	return kept < 0 ? 0 : (uint32_t)kept + 1;
}

int __wrap_mpib_keep_lend(const struct mpib_client *c, uint32_t kept)
{
	(void)c;
	return kept ? __wrap_fcntl((int)kept - 1, F_DUPFD_CLOEXEC, 0) : -EBADF;
}

void __wrap_mpib_keep_close(const struct mpib_client *c, uint32_t kept)
{
	(void)c;
	if (kept)
		__wrap_close((int)kept - 1);
}

/* Store the error text in the current task, since each thread has its own
 * text. */
int __wrap_mpib_fail(int rc, const char *fmt, ...)
{
	struct sim_task *t = sim_task_self();
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(t->text, sizeof(t->text), fmt, ap);
	va_end(ap);
	return rc;
}

const char *__wrap_mpib_strerror(void)
{
	const struct sim_task *t = sim_task_self();

	return t->text[0] ? t->text : "no error";
}

int __wrap_pthread_setname_np(pthread_t thread, const char *name)
{
	struct sim_task *t = (struct sim_task *)(uintptr_t)thread;
	const char *last = strrchr(name, '-');

	snprintf(t->name, sizeof(t->name), "%.9s%.6s", t->proc->name,
		 last ? last : "");
	return 0;
}

/* If another thread holds the mutex, wait until that thread has released it. */
int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
	struct sim_task *t = sim_task_self();

	while (__real_pthread_mutex_trylock(m))
		sim_wait(sim_now + SIM_US);
	if (t)
		t->locks++;
	return 0;
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *m)
{
	struct sim_task *t = sim_task_self();
	int rc = __real_pthread_mutex_trylock(m);

	if (t && rc == 0)
		t->locks++;
	return rc;
}

bool __wrap_mpib_mutex_try(pthread_mutex_t *m)
{
	return __wrap_pthread_mutex_trylock(m) == 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
	struct sim_task *t = sim_task_self();

	if (t)
		t->locks--;
	return __real_pthread_mutex_unlock(m);
}

int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	__wrap_pthread_mutex_unlock(m);
	sim_wait_for(c, SIM_NEVER);
	return __wrap_pthread_mutex_lock(m);
}

int __wrap_pthread_cond_signal(pthread_cond_t *c)
{
	sim_wake_for(c);
	return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *c)
{
	sim_wake_for(c);
	return 0;
}

void sim_clock_jump(int64_t ns)
{
	epoch += (uint64_t)ns;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	uint64_t ns = sim_now;

	/* simulated threads use no CPU time */
	if (clock == CLOCK_THREAD_CPUTIME_ID) {
		*ts = (struct timespec){ 0 };
		return 0;
	}
	if (clock == CLOCK_REALTIME)
		ns += epoch;
	*ts = (struct timespec){ (time_t)(ns / SIM_S), (long)(ns % SIM_S) };
	sim_point();
	return 0;
}

int __wrap_clock_nanosleep(clockid_t clock, int flags,
			   const struct timespec *ts, struct timespec *left)
{
	uint64_t ns = (uint64_t)ts->tv_sec * SIM_S + (uint64_t)ts->tv_nsec;

	(void)clock;
	(void)left;
	sim_wait(flags & TIMER_ABSTIME ? ns : sim_now + ns);
	return 0;
}

int __wrap_usleep(useconds_t us)
{
	sim_wait(sim_now + us * SIM_US);
	return 0;
}

int __wrap_sched_yield(void)
{
	sim_look_again();
	return 0;
}

ssize_t __wrap_getrandom(void *buf, size_t len, unsigned flags)
{
	uint8_t *p = buf;

	(void)flags;
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(sim_rng_next(&chance) >> 32);
	return (ssize_t)len;
}

void __wrap_randombytes_buf(void *buf, size_t len)
{
	__wrap_getrandom(buf, len, 0);
}
