/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated processes, whose threads are coroutines of one kernel thread. A
 * thread of the real code runs until it would block, or until the scheduler
 * switches to another thread. The scheduler can switch at each system call. The
 * seed determines at which calls the scheduler does so. Every possible order of
 * two threads' actions occurs in some seed. All runs of a seed have the same
 * order.
 */
#ifndef SIM_TASK_H
#define SIM_TASK_H

#include <sys/queue.h>
#include <sys/types.h>
#include <ucontext.h>

#include "sim_world.h"

struct sim_file;

TAILQ_HEAD(sim_task_list, sim_task);

struct sim_proc {
	TAILQ_ENTRY(sim_proc) link;
	pid_t pid;
	uid_t uid;
	char name[16];
	unsigned node;
	/* threads of the process that have not ended */
	struct sim_task_list tasks;
	bool over; /* the process has ended */
	bool reaped;
	int status; /* exit status as waitpid(2) returns it */
	/* the process is stopped until this time, as after SIGSTOP */
	uint64_t stopped_until;
	/* the process has too few descriptors and too little device memory */
	bool is_short;
	uint64_t signals; /* pending signals, one bit each */
	struct sim_file *signal_file, *end_file; /* its signalfd and pidfd */
};

/* The saved context of a task. */
struct sim_place {
	ucontext_t context; /* used for the first switch to the task */
	/* Context of __builtin_setjmp(), used after the first switch. */
	void *at[5];
	bool jumps;
};

struct sim_task {
	/* link in the process's list of tasks, or in the list of ended tasks */
	TAILQ_ENTRY(sim_task) link;
	struct sim_proc *proc;
	bool runnable, ended, detached, yielded;
	/* number of mutexes that the task holds; while the task holds a mutex,
	 * no other task runs */
	unsigned locks;
	uint64_t until; /* deadline of a waiting task */
	struct sim_event due; /* fires at that deadline */
	uint64_t number; /* number of tasks that were made before this task */
	/* Link in the table of waiting tasks, if `waits` is not NULL. */
	LIST_ENTRY(sim_task) waiting;
	const void *waits; /* object whose change wakes the task */
	uint64_t looked; /* number of events when the task last ran */
	int err; /* errno */
	char text[320]; /* text of mpib_strerror() */
	struct sim_place place;
	void *stack;
	size_t stack_size;
	void *(*fn)(void *);
	void *arg, *result;
	char name[16];
	struct sim_file *holds; /* file of the current system call */
	void *fiber; /* used by AddressSanitizer */
};

/* A plan's settings of the scheduler. */
struct sim_pace {
	uint64_t step_most; /* maximum ns that a step takes */
	/* a system call switches to another task with a probability of 1 /
	 * `preempt`; 0 means that no system call does */
	unsigned preempt;
	/* While all runnable tasks are polling, the time jumps to the next
	 * event. `leap_most`: maximum length of a jump in ns; 0 means the
	 * length of a step. */
	uint64_t leap_most;
	/* While no event happens, that maximum doubles, up to `leap_far` ns. If
	 * `leap_far` is 0, the maximum stays the same. If both fields are 0,
	 * the time does not jump, and each poll takes the time of a step. */
	uint64_t leap_far;
};
extern struct sim_pace sim_pace;

void sim_tasks_seed(uint64_t seed);
void sim_threads_seed(uint64_t seed); /* sim_thread.c */
/* If not NULL, this function is called when a process has ended. */
extern void (*sim_proc_ended)(struct sim_proc *proc);
struct sim_proc *sim_proc_new(const char *name, unsigned node, uid_t uid);
struct sim_task *sim_task_new(struct sim_proc *proc, const char *name,
			      void *(*fn)(void *), void *arg);
/* Return the current task, or NULL in the scheduler. */
struct sim_task *sim_task_self(void);
struct sim_proc *sim_proc_self(void);
struct sim_proc *sim_proc_find(pid_t pid);
const char *sim_task_name(void);

/* End a process: its threads stop, and its descriptors are closed. If the
 * caller is a thread of the process, the call does not return. */
void sim_proc_end(struct sim_proc *proc, int status);
void sim_proc_stop(struct sim_proc *proc, uint64_t until);
void sim_proc_signal(struct sim_proc *proc, int signo);

/* sim_ready.c: the tasks that can run, in the order in which they were made. */
extern struct sim_ready {
	struct sim_task **task;
	size_t n;
} sim_ready;
/* If the task has ended, this call has no effect. */
void sim_ready_add(struct sim_task *t);
void sim_ready_drop(struct sim_task *t);
/* Do not run the task before the time `at`. */
void sim_ready_at(struct sim_task *t, uint64_t at);
/* Let the task wait for the object at `what`. NULL means that the task waits
 * for no object. */
void sim_ready_waits(struct sim_task *t, const void *what);
/* Wake the tasks that wait for the object. Return their number. */
unsigned sim_ready_for(const void *what);
void sim_ready_look(void); /* wakes tasks whose time has come */
/* returns the time at which the next task can run, or SIM_NEVER */
uint64_t sim_ready_next(void);
/* Update the tasks of a process after its `stopped_until` has changed. */
void sim_tasks_stopped(const struct sim_proc *proc);

/* Return true with a probability of 1 / `of`. */
bool sim_by_chance(unsigned of);
/* Return true if this call must fail with EMFILE because the current process is
 * short of descriptors. */
bool sim_short(void);
/* If `on` is set, processes that are short of descriptors are short of memory,
 * too. */
void sim_short_of_memory(bool on);
/* Return true if this allocation of the current process must fail. */
bool sim_no_memory(void);
/* Make all addresses the same in each run, in case a decision depends on an
 * address. If the kernel randomizes the addresses of this process, disable the
 * randomization and execute the program again. */
void sim_addresses_fix(char **argv);
/* Use different addresses for all later allocations, and reuse freed memory for
 * different objects. With this, a second run shows whether a decision depends
 * on an address. */
void sim_addresses_move(void);
/* Configure malloc() to keep freed memory for reuse. Call this once. */
void sim_memory_stays(void);
/* sim_stack_new() allocates a stack of this many bytes. sim_stack_free()
 * accepts NULL. */
#ifdef __SANITIZE_ADDRESS__
#define SIM_STACK (1u << 20)
#else
#define SIM_STACK (256u << 10)
#endif
void *sim_stack_new(void);
void sim_stack_free(void *stack);
/* Shift the time of day. Monotonic time does not change. */
void sim_clock_jump(int64_t ns);

/* Let the current task wait until another task wakes it, at most until the time
 * `until`. */
void sim_wait(uint64_t until);
void sim_wait_file(struct sim_file *file, uint64_t until);
/* Wake the tasks that wait for `what`. */
void sim_wake_for(const void *what);
void sim_wait_for(const void *what, uint64_t until);
/* The next two functions let other tasks run, but the current task can still be
 * chosen. They have no effect in the scheduler. */
/* Call sim_yield() if the task did something to which other tasks may have to
 * react. */
void sim_yield(void);
/* Call sim_look_again() if the task only polled. */
void sim_look_again(void);
/* Yield at random. Each system call of the simulated kernel calls this
 * function. */
void sim_point(void);

/* Run tasks until over() returns true. Return false if no task can ever run
 * again. */
bool sim_run(bool (*over)(void));
uint64_t sim_steps(void);

/* The original versions of the wrapped functions. */
void __real__exit(int status) __attribute__((noreturn));

#endif
