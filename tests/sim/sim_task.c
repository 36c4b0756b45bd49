/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_task.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "sim_file.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define STACK (1u << 20)
#else
#define STACK (256u << 10)
#define __sanitizer_start_switch_fiber(save, bottom, size) ((void)0)
#define __sanitizer_finish_switch_fiber(save, bottom, size) ((void)0)
#endif

#define FIRST_PID 5000001 /* above every pid of a Linux */
#define TASKS_MAX 512

struct sim_pace sim_pace = { .step_most = 2000, .preempt = 16 };

TAILQ_HEAD(proc_list, sim_proc);
TAILQ_HEAD(task_list, sim_task);
static struct proc_list procs = TAILQ_HEAD_INITIALIZER(procs);
static struct task_list tasks = TAILQ_HEAD_INITIALIZER(tasks);
static struct sim_task *self;
void (*sim_proc_ended)(struct sim_proc *proc);
static struct sim_place scheduler;
static struct sim_rng chance;
static pid_t pids = FIRST_PID;
static uint64_t steps;
#ifdef __SANITIZE_ADDRESS__
static void *scheduler_fiber;
static const void *scheduler_bottom;
static size_t scheduler_size;
#endif

void sim_tasks_seed(uint64_t seed)
{
	sim_rng_seed(&chance, seed, "scheduler");
}

struct sim_task *sim_task_self(void)
{
	return self;
}

struct sim_proc *sim_proc_self(void)
{
	return self ? self->proc : NULL;
}

const char *sim_task_name(void)
{
	return self ? self->name : "-";
}

uint64_t sim_steps(void)
{
	return steps;
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
	p->parent = sim_proc_self();
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

/* swapcontext() also asks the kernel for the signal mask, which is the same
 * everywhere: with it a seed would take a fifth longer. AddressSanitizer takes
 * a longjmp() for the end of frames, so there it stays. */
static void switch_place(struct sim_place *from, struct sim_place *to)
{
#ifdef __SANITIZE_ADDRESS__
	swapcontext(&from->context, &to->context);
#else
	if (_setjmp(from->at))
		return;
	from->jumps = true;
	if (to->jumps)
		_longjmp(to->at, 1);
	setcontext(&to->context);
#endif
}

static void to_scheduler(void)
{
	struct sim_task *t = self;

	t->err = errno;
	__sanitizer_start_switch_fiber(t->ended ? NULL : &t->fiber,
				       scheduler_bottom, scheduler_size);
	switch_place(&t->place, &scheduler);
	__sanitizer_finish_switch_fiber(t->fiber, &scheduler_bottom,
					&scheduler_size);
	errno = t->err;
}

static void start(void)
{
	struct sim_task *t = self;

	__sanitizer_finish_switch_fiber(NULL, &scheduler_bottom,
					&scheduler_size);
	t->result = t->fn(t->arg);
	t->ended = true;
	t->runnable = false;
	to_scheduler();
	abort();
}

struct sim_task *sim_task_new(struct sim_proc *proc, const char *name,
			      void *(*fn)(void *), void *arg)
{
	struct sim_task *t = calloc(1, sizeof(*t));

	if (!t)
		abort();
	t->stack_size = STACK;
	t->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
#ifdef __SANITIZE_ADDRESS__
	/* There may have been another stack, which was left in the midst. */
	__asan_unpoison_memory_region(t->stack, STACK);
#endif
	if (t->stack == MAP_FAILED || getcontext(&t->place.context) < 0)
		abort();
	t->place.context.uc_stack.ss_sp = t->stack;
	t->place.context.uc_stack.ss_size = STACK;
	makecontext(&t->place.context, start, 0);
	t->proc = proc;
	t->fn = fn;
	t->arg = arg;
	t->runnable = true;
	t->until = SIM_NEVER;
	snprintf(t->name, sizeof(t->name), "%s", name);
	TAILQ_INSERT_TAIL(&tasks, t, link);
	return t;
}

void sim_wake(struct sim_task *task)
{
	task->runnable = true;
}

void sim_wake_for(const void *what)
{
	struct sim_task *t;

	TAILQ_FOREACH(t, &tasks, link)
	{
		if (t->waits == what)
			t->runnable = true;
	}
}

void sim_wait_for(const void *what, uint64_t until)
{
	struct sim_task *t = self;

	if (!t)
		abort(); /* the scheduler never waits */
	t->runnable = false;
	t->until = until;
	t->waits = what;
	to_scheduler();
	t->waits = NULL;
	t->until = SIM_NEVER;
}

void sim_wait(uint64_t until)
{
	sim_wait_for(NULL, until);
}

void sim_wait_file(struct sim_file *file, uint64_t until)
{
	file->waiters++;
	sim_wait_for(file, until);
	file->waiters--;
}

bool sim_by_chance(unsigned of)
{
	return sim_chance(&chance, of);
}

void sim_yield(void)
{
	if (!self)
		return;
	self->yielded = true;
	to_scheduler();
}

void sim_point(void)
{
	if (!self || self->locks)
		return;
	sim_now += 20;
	if (sim_pace.preempt && sim_chance(&chance, sim_pace.preempt))
		to_scheduler();
}

void sim_proc_stop(struct sim_proc *proc, uint64_t until)
{
	sim_trace("%s is stopped for %llu us", proc->name,
		  (unsigned long long)(until - sim_now) / 1000);
	proc->stopped_until = until;
}

void sim_proc_end(struct sim_proc *proc, int status)
{
	struct sim_task *t;

	if (proc->over)
		return;
	if (WIFSIGNALED(status))
		sim_trace("%s is killed", proc->name);
	proc->over = true;
	proc->status = status;
	TAILQ_FOREACH(t, &tasks, link)
	{
		if (t->proc != proc)
			continue;
		t->ended = true;
		t->runnable = false;
		if (t->holds)
			sim_file_put(t->holds);
		t->holds = NULL;
	}
	if (sim_proc_ended)
		sim_proc_ended(proc);
	sim_files_close_all(proc);
	if (proc->end_file)
		sim_file_changed(proc->end_file);
	if (self && self->proc == proc)
		to_scheduler();
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

static void reap(void)
{
	struct sim_task *t, *next;

	for (t = TAILQ_FIRST(&tasks); t; t = next) {
		next = TAILQ_NEXT(t, link);
		if (!t->ended)
			continue;
		if (t->stack)
			munmap(t->stack, t->stack_size);
		t->stack = NULL;
		/* One that may still be joined is remembered. */
		if (!t->detached && !t->proc->over)
			continue;
		TAILQ_REMOVE(&tasks, t, link);
		free(t);
	}
}

static bool can_run(struct sim_task *t)
{
	if (t->ended || t->proc->stopped_until > sim_now)
		return false;
	if (!t->runnable && t->until <= sim_now)
		t->runnable = true;
	return t->runnable;
}

/* When the first of those that wait is due. */
static uint64_t next_due(void)
{
	uint64_t at = sim_events_next();
	struct sim_task *t;

	TAILQ_FOREACH(t, &tasks, link)
	{
		uint64_t due = t->runnable ? 0 : t->until;

		if (t->ended)
			continue;
		if (due < t->proc->stopped_until)
			due = t->proc->stopped_until;
		if (due < at)
			at = due;
	}
	return at;
}

/* One that can run, by chance; *others: more than one can. NULL: none. */
static struct sim_task *choose(bool *busy)
{
	struct sim_task *t, *ready[TASKS_MAX];
	unsigned n = 0;

	*busy = false;
	TAILQ_FOREACH(t, &tasks, link)
	{
		if (n < TASKS_MAX && can_run(t)) {
			ready[n++] = t;
			*busy |= !t->yielded;
		}
	}
	return n ? ready[sim_draw(&chance, n)] : NULL;
}

static void switch_to(struct sim_task *t)
{
	self = t;
	t->yielded = false;
	errno = t->err;
	__sanitizer_start_switch_fiber(&scheduler_fiber, t->stack,
				       t->stack_size);
	switch_place(&scheduler, &t->place);
	__sanitizer_finish_switch_fiber(scheduler_fiber, NULL, NULL);
	self = NULL;
}

bool sim_run(bool (*over)(void))
{
	while (!over()) {
		struct sim_task *t;
		bool busy;

		sim_now += sim_draw(&chance, sim_pace.step_most);
		sim_events_run();
		t = choose(&busy);
		if (t) {
			/* All of them only look whether there is something to
			 * do: time flies. */
			if (!busy)
				sim_now += sim_pace.step_most;
			steps++;
			switch_to(t);
			if (t->ended)
				reap();
			continue;
		}
		if (next_due() == SIM_NEVER)
			return false;
		if (next_due() > sim_now)
			sim_now = next_due();
	}
	return true;
}
