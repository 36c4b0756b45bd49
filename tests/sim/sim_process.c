/* SPDX-License-Identifier: Apache-2.0 */
/* Simulate processes: their ids, signals and termination. Real descriptors are
 * closed when their process ends. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "sim_file.h"
#include "sim_task.h"
#include "sim_wrap.h"

#define FIRST_PID 5000001 /* greater than any real pid */

TAILQ_HEAD(proc_list, sim_proc);
static struct proc_list procs = TAILQ_HEAD_INITIALIZER(procs);
static pid_t pids = FIRST_PID;

bool sim_short(void)
{
	struct sim_proc *p = sim_proc_self();

	if (!p || !p->is_short || !sim_by_chance(2))
		return false;
	errno = EMFILE;
	return true;
}

struct sim_proc *sim_proc_new(const char *name, unsigned node, uid_t uid)
{
	struct sim_proc *p = calloc(1, sizeof(*p));

	if (!p)
		abort();
	snprintf(p->name, sizeof(p->name), "%s", name);
	p->pid = pids++;
	p->node = node;
	p->uid = uid;
	TAILQ_INIT(&p->tasks);
	TAILQ_INSERT_TAIL(&procs, p, link);
	return p;
}

struct sim_proc *sim_proc_find(pid_t pid)
{
	struct sim_proc *p;

	TAILQ_FOREACH(p, &procs, link)
	{
		if (p->pid == pid)
			return p;
	}
	return NULL;
}

void sim_proc_stop(struct sim_proc *proc, uint64_t until)
{
	sim_trace("%s is stopped for %llu us", proc->name,
		  (unsigned long long)(until - sim_now) / 1000);
	proc->stopped_until = until;
	sim_tasks_stopped(proc);
}

void sim_proc_signal(struct sim_proc *proc, int signo)
{
	if (proc->over)
		return;
	if (signo == SIGKILL) {
		sim_proc_end(proc, SIGKILL);
		return;
	}
	proc->signals |= 1ull << signo;
	if (proc->signal_file)
		sim_file_changed(proc->signal_file);
}

pid_t __wrap_getpid(void)
{
	const struct sim_proc *p = sim_proc_self();

	return p ? p->pid : 1;
}

int __wrap_kill(pid_t pid, int signo)
{
	struct sim_proc *p = sim_proc_find(pid);

	if (!p || p->over) {
		errno = ESRCH;
		return -1;
	}
	sim_proc_signal(p, signo);
	return 0;
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
	struct sim_proc *p = sim_proc_find(pid);

	(void)options; /* the caller always passes WNOHANG */
	if (!p || p->reaped) {
		errno = ECHILD;
		return -1;
	}
	if (!p->over)
		return 0;
	p->reaped = true;
	if (status)
		*status = p->status;
	return pid;
}

void __wrap__exit(int status)
{
	struct sim_proc *p = sim_proc_self();

	if (!p)
		__real__exit(status);
	sim_proc_end(p, (status & 0xff) << 8);
	__builtin_trap();
}

/* Signals are delivered only through a signalfd. */
int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	(void)how;
	(void)set;
	(void)old;
	return 0;
}

int __wrap_sigpending(sigset_t *set)
{
	const struct sim_proc *p = sim_proc_self();

	sigemptyset(set);
	for (int i = 1; i < 32; i++) {
		if (p->signals >> i & 1)
			sigaddset(set, i);
	}
	return 0;
}

int __wrap_sigaction(int signo, const struct sigaction *act,
		     struct sigaction *old)
{
	(void)signo;
	(void)act;
	if (old)
		memset(old, 0, sizeof(*old));
	return 0;
}

/* Register a descriptor of the real kernel, and return it. End the run if the
 * real kernel has no descriptor or memory left. */
static int real_fd(int fd, const char *what)
{
	if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
		       errno == ENOSPC))
		sim_lacks(what);
	return sim_fd_real(fd);
}

static long sim_gettid(void)
{
	return (long)sim_task_self()->number + 1;
}

/* Simulate tgkill(2) with signal 0: return 0 if `thread` is a thread of the
 * process. */
static long sim_has_thread(pid_t pid, long thread)
{
	const struct sim_proc *proc = sim_proc_find(pid);
	const struct sim_task *t;

	if (proc && !proc->over) {
		TAILQ_FOREACH(t, &proc->tasks, link)
		{
			if ((long)t->number + 1 == thread)
				return 0;
		}
	}
	errno = ESRCH;
	return -1;
}

/* Pass system calls about memory and real files to the real kernel. */
long __wrap_syscall(long number, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	switch (number) {
	case SYS_pidfd_open:
		return sim_pidfd((pid_t)a[0]);
	case SYS_gettid:
		return sim_gettid();
	case SYS_tgkill:
		return sim_has_thread((pid_t)a[0], a[1]);
	case SYS_getrandom:
		return __wrap_getrandom((void *)a[0], (size_t)a[1],
					(unsigned)a[2]);
	case SYS_memfd_create:
		return real_fd((int)__real_syscall(number, a[0], a[1]),
			       "memfd");
	case SYS_fstat:
	case SYS_newfstatat:
	case SYS_mmap:
		return __real_syscall(number, a[0], a[1], a[2], a[3], a[4],
				      a[5]);
	default:
		sim_fail("the simulated kernel has no system call %ld", number);
	}
}

int __wrap_open(const char *path, int flags, ...)
{
	va_list ap;
	int mode;

	va_start(ap, flags);
	mode = va_arg(ap, int);
	va_end(ap);
	if (sim_short())
		return -1;
	return real_fd(__real_open(path, flags, mode), path);
}

int __wrap_openat(int dir, const char *path, int flags, ...)
{
	va_list ap;
	int mode;

	va_start(ap, flags);
	mode = va_arg(ap, int);
	va_end(ap);
	if (sim_short())
		return -1;
	return real_fd(__real_openat(dir, path, flags, mode), path);
}

int __wrap_memfd_create(const char *name, unsigned flags)
{
	return sim_short() ? -1
			   : real_fd(__real_memfd_create(name, flags), name);
}

/* Hide the topology of the real machine from the simulated nodes. */
int __wrap_hwloc_topology_load(void *topology)
{
	(void)topology;
	return -1;
}

/* Hide the interfaces and groups of the real machine, too. Without this,
 * queries for interfaces and groups would be slow. */
int __wrap_getifaddrs(struct ifaddrs **all)
{
	*all = NULL;
	return 0;
}

struct group *__wrap_getgrnam(const char *name)
{
	(void)name;
	return NULL;
}
