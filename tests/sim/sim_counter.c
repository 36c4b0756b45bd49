/* SPDX-License-Identifier: Apache-2.0 */
/* Simulate eventfd, timerfd, signalfd, pidfd and pipe. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#include "sim_file.h"
#include "sim_task.h"
#include "sim_wrap.h"

struct counter {
	struct sim_file file;
	uint64_t count;
	bool semaphore;
};

static uint32_t counter_ready(struct sim_file *f)
{
	return EPOLLOUT | (((struct counter *)f)->count ? EPOLLIN : 0u);
}

static ssize_t counter_read(struct sim_file *f, void *buf, size_t len)
{
	struct counter *c = (struct counter *)f;
	uint64_t n = c->semaphore && c->count ? 1 : c->count;

	if (len < sizeof(n))
		return -EINVAL;
	if (!n)
		return -EAGAIN;
	c->count -= n;
	memcpy(buf, &n, sizeof(n));
	return sizeof(n);
}

static ssize_t counter_write(struct sim_file *f, const void *buf, size_t len)
{
	uint64_t n;

	if (len < sizeof(n))
		return -EINVAL;
	memcpy(&n, buf, sizeof(n));
	sim_counter_add(f, n);
	return sizeof(n);
}

static const struct sim_file_ops counter_ops = {
	.ready = counter_ready,
	.read = counter_read,
	.write = counter_write,
};

struct sim_file *sim_counter_new(bool semaphore)
{
	struct counter *c = sim_file_new(&counter_ops, sizeof(*c));

	c->semaphore = semaphore;
	return &c->file;
}

void sim_counter_add(struct sim_file *f, uint64_t n)
{
	((struct counter *)f)->count += n;
	sim_file_changed(f);
}

int __wrap_eventfd(unsigned count, int flags)
{
	struct sim_file *f;

	if (sim_short())
		return -1;
	f = sim_counter_new(flags & EFD_SEMAPHORE);
	((struct counter *)f)->count = count;
	f->nonblock = flags & EFD_NONBLOCK;
	return sim_fd_new(f);
}

int __wrap_eventfd_write(int fd, eventfd_t n)
{
	return __wrap_write(fd, &n, sizeof(n)) == sizeof(n) ? 0 : -1;
}

int __wrap_eventfd_read(int fd, eventfd_t *n)
{
	return __wrap_read(fd, n, sizeof(*n)) == sizeof(*n) ? 0 : -1;
}

struct timer {
	struct sim_file file;
	struct sim_event event;
	bool rang;
};

static uint32_t timer_ready(struct sim_file *f)
{
	return ((struct timer *)f)->rang ? EPOLLIN : 0;
}

static ssize_t timer_read(struct sim_file *f, void *buf, size_t len)
{
	struct timer *t = (struct timer *)f;
	uint64_t one = 1;

	if (len < sizeof(one))
		return -EINVAL;
	if (!t->rang)
		return -EAGAIN;
	t->rang = false;
	memcpy(buf, &one, sizeof(one));
	return sizeof(one);
}

static void timer_close(struct sim_file *f)
{
	sim_event_disarm(&((struct timer *)f)->event);
}

static const struct sim_file_ops timer_ops = {
	.ready = timer_ready,
	.read = timer_read,
	.close = timer_close,
};

static void ring(void *arg)
{
	struct timer *t = arg;

	t->rang = true;
	sim_file_changed(&t->file);
}

int __wrap_timerfd_create(int clock, int flags)
{
	struct timer *t = sim_file_new(&timer_ops, sizeof(*t));

	(void)clock;
	t->file.nonblock = flags & TFD_NONBLOCK;
	return sim_fd_new(&t->file);
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *set,
			   struct itimerspec *old)
{
	struct timer *t = (struct timer *)sim_fd_file(fd);
	uint64_t ns = (uint64_t)set->it_value.tv_sec * SIM_S +
		      (uint64_t)set->it_value.tv_nsec;

	(void)old;
	if (!t)
		return -1;
	t->rang = false;
	sim_event_disarm(&t->event);
	if (ns)
		sim_event_arm(&t->event,
			      flags & TFD_TIMER_ABSTIME ? ns : sim_now + ns,
			      ring, t);
	sim_file_changed(&t->file);
	return 0;
}

/* The file of a signalfd or pidfd. A signalfd reports the signals of `proc`. A
 * pidfd reports the end of `proc`. */
struct word {
	struct sim_file file;
	struct sim_proc *proc;
};

static uint32_t signals_ready(struct sim_file *f)
{
	return ((struct word *)f)->proc->signals ? EPOLLIN : 0;
}

static ssize_t signals_read(struct sim_file *f, void *buf, size_t len)
{
	struct sim_proc *p = ((struct word *)f)->proc;
	struct signalfd_siginfo info = { 0 };

	if (len < sizeof(info))
		return -EINVAL;
	if (!p->signals)
		return -EAGAIN;
	info.ssi_signo = (uint32_t)__builtin_ctzll(p->signals);
	p->signals &= p->signals - 1;
	memcpy(buf, &info, sizeof(info));
	return sizeof(info);
}

static void signals_close(struct sim_file *f)
{
	((struct word *)f)->proc->signal_file = NULL;
}

static const struct sim_file_ops signals_ops = {
	.ready = signals_ready,
	.read = signals_read,
	.close = signals_close,
};

int __wrap_signalfd(int fd, const sigset_t *set, int flags)
{
	struct word *w = sim_file_new(&signals_ops, sizeof(*w));

	(void)fd;
	(void)set;
	w->proc = sim_proc_self();
	w->file.nonblock = flags & SFD_NONBLOCK;
	w->proc->signal_file = &w->file;
	return sim_fd_new(&w->file);
}

static uint32_t end_ready(struct sim_file *f)
{
	return ((struct word *)f)->proc->over ? EPOLLIN : 0;
}

static void end_close(struct sim_file *f)
{
	((struct word *)f)->proc->end_file = NULL;
}

static const struct sim_file_ops end_ops = {
	.ready = end_ready,
	.close = end_close,
};

int sim_pidfd(pid_t pid)
{
	struct sim_proc *p = sim_proc_find(pid);
	struct word *w;

	if (!p || p->over) {
		errno = ESRCH;
		return -1;
	}
	if (p->end_file) {
		sim_file_hold(p->end_file);
		return sim_fd_new(p->end_file);
	}
	w = sim_file_new(&end_ops, sizeof(*w));
	w->proc = p;
	p->end_file = &w->file;
	return sim_fd_new(&w->file);
}
