/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes and their threads, as coroutines of one kernel thread. A thread of
 * the real code runs until it would block, or until a system call at which the
 * seed switches to another thread. Thus every order of two threads' actions
 * occurs in some seed, and each run of that seed has the same order.
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
	struct sim_task_list tasks; /* its threads that have not ended */
	bool over; /* none of its threads runs any more */
	bool reaped;
	int status; /* as waitpid(2) returns it */
	uint64_t stopped_until; /* until then as after SIGSTOP */
	bool is_short; /* has too few descriptors and device memory */
	uint64_t signals; /* pending signals, one bit each */
	struct sim_file *signal_file, *end_file; /* signalfd, pidfd */
};

/* The saved context of a task. */
struct sim_place {
	ucontext_t context; /* at first */
	void *at[5]; /* context of __builtin_setjmp() after the first switch */
	bool jumps;
};

struct sim_task {
	/* in its process's list, or among the ended ones */
	TAILQ_ENTRY(sim_task) link;
	struct sim_proc *proc;
	bool runnable, ended, detached, yielded;
	unsigned locks; /* mutexes held: no other task may run meanwhile */
	uint64_t until; /* deadline of a waiting task */
	struct sim_event due; /* fires at that deadline */
	uint64_t number; /* number of tasks made before it */
	LIST_ENTRY(sim_task) waiting; /* keyed by waits, unless that is NULL */
	const void *waits; /* file or condition; its change wakes the task */
	uint64_t looked; /* count of events when it last ran */
	int err; /* errno */
	char text[320]; /* for mpib_strerror() */
	struct sim_place place;
	void *stack;
	size_t stack_size;
	void *(*fn)(void *);
	void *arg, *result;
	char name[16];
	struct sim_file *holds; /* file of the current system call */
	void *fiber; /* for AddressSanitizer */
};

/* A plan's settings of the scheduler. */
struct sim_pace {
	uint64_t step_most; /* most ns that a step takes */
	/* a system call in this many switches tasks; 0: none */
	unsigned preempt;
	/* If all running tasks only poll, and have polled since the last event,
	 * time jumps to the next event, but at most this far; 0: at most a
	 * step. */
	uint64_t leap_most;
	/* The jump doubles while no event happens, up to this; 0: it stays the
	 * same. If leap_most is 0 too, each poll takes a step's time. */
	uint64_t leap_far;
};
extern struct sim_pace sim_pace;

void sim_tasks_seed(uint64_t seed);
void sim_threads_seed(uint64_t seed); /* sim_thread.c */
/* Called when a process has ended; NULL: not called. */
extern void (*sim_proc_ended)(struct sim_proc *proc);
struct sim_proc *sim_proc_new(const char *name, unsigned node, uid_t uid);
struct sim_task *sim_task_new(struct sim_proc *proc, const char *name,
			      void *(*fn)(void *), void *arg);
/* Return the current task; NULL: the scheduler. */
struct sim_task *sim_task_self(void);
struct sim_proc *sim_proc_self(void);
struct sim_proc *sim_proc_find(pid_t pid);
const char *sim_task_name(void);

/* End a process now: its threads no longer run, its descriptors are closed. If
 * the caller is one of its threads, the call does not return. */
void sim_proc_end(struct sim_proc *proc, int status);
void sim_proc_stop(struct sim_proc *proc, uint64_t until);
void sim_proc_signal(struct sim_proc *proc, int signo);

/* sim_ready.c: tasks that can run, unless their process is stopped, in the
 * order in which they were made. */
extern struct sim_ready {
	struct sim_task **task;
	size_t n;
} sim_ready;
void sim_ready_add(struct sim_task *t); /* no effect if it has ended */
void sim_ready_drop(struct sim_task *t);
/* Do not run the task before that time. */
void sim_ready_at(struct sim_task *t, uint64_t at);
/* Let the task wait for the object at this address; NULL: for none. */
void sim_ready_waits(struct sim_task *t, const void *what);
/* wake the object's waiters; return how many */
unsigned sim_ready_for(const void *what);
void sim_ready_look(void); /* wake tasks whose time has come */
uint64_t sim_ready_next(void); /* when the next task can run; SIM_NEVER: none */
/* Update the tasks of a process that is stopped until another time. */
void sim_tasks_stopped(const struct sim_proc *proc);

/* Return true once in this many calls. */
bool sim_by_chance(unsigned of);
/* Return true if this call must fail with EMFILE, because the current process
 * is short of descriptors. */
bool sim_short(void);
/* Set whether a process short of descriptors is also short of memory. */
void sim_short_of_memory(bool on);
/* Return true if an allocation of the current process must fail now. */
bool sim_no_memory(void);
/* Make addresses the same in each run, in case a decision depends on them. This
 * executes the program again if necessary. */
void sim_addresses_fix(char **argv);
/* Use other addresses from now on, and reuse freed memory for other objects. */
void sim_addresses_move(void);
/* Reuse the memory that a seed's processes free. Called once. */
void sim_memory_stays(void);
/* Allocate this many bytes. NULL may be freed. */
#ifdef __SANITIZE_ADDRESS__
#define SIM_STACK (1u << 20)
#else
#define SIM_STACK (256u << 10)
#endif
void *sim_stack_new(void);
void sim_stack_free(void *stack);
/* Shift the time of day. Monotonic time does not change. */
void sim_clock_jump(int64_t ns);

/* Wait in a task until it is woken or the time has come. */
void sim_wait(uint64_t until);
void sim_wait_file(struct sim_file *file, uint64_t until);
/* Wake the tasks that wait for this. */
void sim_wake_for(const void *what);
void sim_wait_for(const void *what, uint64_t until);
/* Let others run; the task stays runnable. Does nothing in the scheduler. */
/* the task did something that others may need to notice */
void sim_yield(void);
void sim_look_again(void); /* the task only polled */
/* Yield by chance. Each system call of the simulated kernel calls this. */
void sim_point(void);

/* Run tasks until over() returns true. False: nothing can ever run again. */
bool sim_run(bool (*over)(void));
uint64_t sim_steps(void);

/* The original functions of the wrapped ones. */
void __real__exit(int status) __attribute__((noreturn));

#endif
