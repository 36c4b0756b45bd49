/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_task.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "sim_file.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#else
#define __sanitizer_start_switch_fiber(save, bottom, size) ((void)0)
#define __sanitizer_finish_switch_fiber(save, bottom, size) ((void)0)
#endif

#define TASKS_MAX 512

struct sim_pace sim_pace = { .step_most = 2000, .preempt = 16 };

static struct sim_task_list ended = TAILQ_HEAD_INITIALIZER(ended);
static struct sim_task *self;
void (*sim_proc_ended)(struct sim_proc *proc);
static struct sim_place scheduler;
static struct sim_rng chance;
static uint64_t steps, made;
/* Number of events so far. An event is something to which a task may have to
 * react. */
static uint64_t happened;
static bool (*is_over)(void);
static bool stuck; /* the run ended because no task can run */
/* The task of the next step. Only valid if `is_chosen` is set. */
static struct sim_task *chosen;
static bool is_chosen;
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

/* swapcontext() would be too slow, because it makes a system call to set the
 * signal mask, which is the same for all tasks. With AddressSanitizer,
 * swapcontext() clears the shadow memory of the whole stack, too. longjmp()
 * cannot be used: the sanitizer would assume that the stack frames above the
 * target have ended. */
__attribute__((noinline, no_sanitize("address"))) static void
switch_place(struct sim_place *from, struct sim_place *to)
{
	if (__builtin_setjmp(from->at))
		return;
	from->jumps = true;
	if (to->jumps)
		__builtin_longjmp(to->at, 1);
	setcontext(&to->context);
	abort();
}

static void to_scheduler(void);

static void end(struct sim_task *t)
{
	t->ended = true;
	sim_ready_drop(t);
	TAILQ_REMOVE(&t->proc->tasks, t, link);
	TAILQ_INSERT_TAIL(&ended, t, link);
}

static void start(void)
{
	struct sim_task *t = self;

	__sanitizer_finish_switch_fiber(NULL, &scheduler_bottom,
					&scheduler_size);
	t->result = t->fn(t->arg);
	end(t);
	to_scheduler();
	abort();
}

struct sim_task *sim_task_new(struct sim_proc *proc, const char *name,
			      void *(*fn)(void *), void *arg)
{
	struct sim_task *t = calloc(1, sizeof(*t));

	if (!t)
		abort();
	t->stack_size = SIM_STACK;
	t->stack = sim_stack_new();
	if (getcontext(&t->place.context) < 0)
		abort();
	t->place.context.uc_stack.ss_sp = t->stack;
	t->place.context.uc_stack.ss_size = SIM_STACK;
	makecontext(&t->place.context, start, 0);
	t->proc = proc;
	t->fn = fn;
	t->arg = arg;
	t->until = SIM_NEVER;
	t->number = made++;
	snprintf(t->name, sizeof(t->name), "%s", name);
	TAILQ_INSERT_TAIL(&proc->tasks, t, link);
	sim_ready_add(t);
	return t;
}

void sim_wake_for(const void *what)
{
	happened += sim_ready_for(what);
}

void sim_wait_for(const void *what, uint64_t until)
{
	struct sim_task *t = self;

	if (!t)
		abort(); /* the scheduler never waits */
	/* Count a wait for an object as an event. Do not count a pause: a task
	 * that pauses has most likely polled without a result. */
	happened += what != NULL;
	sim_ready_at(t, until);
	sim_ready_waits(t, what);
	to_scheduler();
	sim_ready_waits(t, NULL);
	t->until = SIM_NEVER;
}

bool sim_by_chance(unsigned of)
{
	return sim_chance(&chance, of);
}

void sim_look_again(void)
{
	if (!self)
		return;
	self->yielded = true;
	to_scheduler();
}

void sim_yield(void)
{
	happened++;
	sim_look_again();
}

void sim_point(void)
{
	if (!self || self->locks)
		return;
	sim_now += 20;
	if (sim_pace.preempt && sim_chance(&chance, sim_pace.preempt))
		to_scheduler();
}

void sim_proc_end(struct sim_proc *proc, int status)
{
	struct sim_task *t;

	if (proc->over)
		return;
	happened++;
	if (WIFSIGNALED(status))
		sim_trace("%s is killed", proc->name);
	proc->over = true;
	proc->status = status;
	while ((t = TAILQ_FIRST(&proc->tasks))) {
		end(t);
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

static void reap(void)
{
	struct sim_task *t, *next;

	for (t = TAILQ_FIRST(&ended); t; t = next) {
		next = TAILQ_NEXT(t, link);
		sim_stack_free(t->stack);
		t->stack = NULL;
		/* Do not free a thread that can still be joined. */
		if (!t->detached && !t->proc->over)
			continue;
		TAILQ_REMOVE(&ended, t, link);
		sim_ready_waits(t, NULL);
		free(t);
	}
}

/* Return the time of the next event or wake-up. */
static uint64_t next_due(void)
{
	uint64_t event = sim_events_next(), task = sim_ready_next();

	return event < task ? event : task;
}

void sim_tasks_stopped(const struct sim_proc *proc)
{
	struct sim_task *t;

	TAILQ_FOREACH(t, &proc->tasks, link)
	{
		if (!t->runnable)
			sim_ready_at(t, t->until);
	}
}

static bool leaps(void)
{
	return sim_pace.leap_most || sim_pace.leap_far;
}

/* Return whether the task's last step was only a poll, and no event has
 * happened since this step. */
static bool only_looks(const struct sim_task *t)
{
	return t->yielded && (!leaps() || t->looked == happened);
}

/* Return a random task that can run, or NULL if there is none. Set *`busy` if
 * at least one such task does more than poll. */
static struct sim_task *choose(bool *busy)
{
	/* static, because it is too large for the stack of a task */
	static struct sim_task *ready[TASKS_MAX];
	unsigned n = 0;

	*busy = false;
	sim_ready_look();
	for (size_t i = 0; n < TASKS_MAX && i < sim_ready.n; i++) {
		struct sim_task *t = sim_ready.task[i];

		if (t->proc->stopped_until > sim_now)
			continue;
		ready[n++] = t;
		*busy |= !only_looks(t);
	}
	return n ? ready[sim_draw(&chance, n)] : NULL;
}

/* All tasks are polling, so move the virtual time forward. If a planned event
 * comes first, move the time to that event, and return false. */
static bool time_flies(void)
{
	static uint64_t looked; /* time to which the last jump led */
	/* `seen`: value of `happened` after the last jump; `far`: length of the
	 * next jump */
	static uint64_t seen = SIM_NEVER, far;
	uint64_t due, until;

	if (!leaps()) {
		sim_now += sim_pace.step_most;
		return true;
	}
	due = next_due();
	if (seen != happened)
		far = sim_pace.leap_most ? sim_pace.leap_most
					 : sim_pace.step_most;
	until = looked + far;
	if (until < sim_now)
		until = sim_now;
	if (due <= until) {
		sim_now = due;
		return false;
	}
	/* Count the jump as an event, so that polling tasks run again. A
	 * polling task may wait for a point in time that has now passed. */
	sim_now = looked = until;
	seen = ++happened;
	if (2 * far <= sim_pace.leap_far)
		far *= 2;
	return true;
}

/* Return the task of the next step. Return NULL if the run is over or if no
 * task can ever run again. */
static struct sim_task *choose_next(void)
{
	while (!is_over()) {
		struct sim_task *t;
		bool busy;

		sim_now += sim_draw(&chance, sim_pace.step_most);
		if (sim_events_run())
			happened++;
		t = choose(&busy);
		if (t && !busy && !time_flies())
			continue;
		if (t) {
			steps++;
			return t;
		}
		stuck = next_due() == SIM_NEVER;
		if (stuck)
			return NULL;
		if (next_due() > sim_now)
			sim_now = next_due();
	}
	return NULL;
}

/* Let task `t` continue. */
static void take(struct sim_task *t)
{
	self = t;
	t->yielded = false;
	t->looked = happened;
	errno = t->err;
}

static void switch_to(struct sim_task *t)
{
	take(t);
	__sanitizer_start_switch_fiber(&scheduler_fiber, t->stack,
				       t->stack_size);
	switch_place(&scheduler, &t->place);
	__sanitizer_finish_switch_fiber(scheduler_fiber, NULL, NULL);
	self = NULL;
}

/* Choose the next task before a switch to the scheduler. In most cases this is
 * the current task, which then continues without a switch. */
static void to_scheduler(void)
{
	struct sim_task *t = self;

	t->err = errno;
	if (!t->ended) {
		self = NULL;
		chosen = choose_next();
		is_chosen = chosen != t;
		if (!is_chosen) {
			take(t);
			return;
		}
	}
	__sanitizer_start_switch_fiber(t->ended ? NULL : &t->fiber,
				       scheduler_bottom, scheduler_size);
	switch_place(&t->place, &scheduler);
	__sanitizer_finish_switch_fiber(t->fiber, &scheduler_bottom,
					&scheduler_size);
	errno = t->err;
}

bool sim_run(bool (*over)(void))
{
	is_over = over;
	for (;;) {
		struct sim_task *t = is_chosen ? chosen : choose_next();

		is_chosen = false;
		if (!t)
			return !stuck;
		switch_to(t);
		if (t->ended)
			reap();
	}
}
