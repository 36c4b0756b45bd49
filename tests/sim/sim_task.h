/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes and their threads, as coroutines of one kernel thread. A thread of
 * the real code runs until it would wait, or until a system call at which the
 * seed lets another thread run. So every order of two threads' actions happens
 * in some seed, and is the same in each run of it.
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
	int status; /* as waitpid(2) gives it */
	uint64_t stopped_until; /* SIGSTOP, as it were */
	bool is_short; /* of descriptors and of memory for devices */
	uint64_t signals; /* pending, a bit each */
	struct sim_file *signal_file, *end_file; /* signalfd, pidfd */
};

/* Where somebody goes on. */
struct sim_place {
	ucontext_t context; /* at first */
	void *at[5]; /* then: of __builtin_setjmp() */
	bool jumps;
};

struct sim_task {
	TAILQ_ENTRY(sim_task) link; /* its process's, or those that ended */
	struct sim_proc *proc;
	bool runnable, ended, detached, yielded;
	unsigned locks; /* mutexes held: nothing else runs meanwhile */
	uint64_t until; /* of a task that waits */
	struct sim_event due; /* when it can run, if it waits for a time */
	uint64_t number; /* how many were made before it */
	LIST_ENTRY(sim_task) waiting; /* by waits, unless that is NULL */
	const void *waits; /* a file or a condition; woken when it changes */
	uint64_t looked; /* count of events when it last ran */
	int err; /* errno */
	char text[320]; /* of mpib_strerror() */
	struct sim_place place;
	void *stack;
	size_t stack_size;
	void *(*fn)(void *);
	void *arg, *result;
	char name[16];
	struct sim_file *holds; /* a call of the kernel is about it */
	void *fiber; /* AddressSanitizer's */
};

/* A plan's settings of the scheduler. */
struct sim_pace {
	uint64_t step_most; /* ns that a step takes, at most */
	unsigned preempt; /* one in this many calls of the kernel; 0: none */
	/* If all running tasks only poll, and have polled since the last event,
	 * time leaps to the next event, but at most this far at once; 0: at
	 * most a step. */
	uint64_t leap_most;
	/* Each leap without an event before the next doubles, up to this; 0:
	 * leaps do not grow, and with leap_most 0 as well each poll takes a
	 * step's time. */
	uint64_t leap_far;
};
extern struct sim_pace sim_pace;

void sim_tasks_seed(uint64_t seed);
void sim_threads_seed(uint64_t seed); /* sim_thread.c */
/* Called when a process has ended; NULL: nothing is. */
extern void (*sim_proc_ended)(struct sim_proc *proc);
struct sim_proc *sim_proc_new(const char *name, unsigned node, uid_t uid);
struct sim_task *sim_task_new(struct sim_proc *proc, const char *name,
			      void *(*fn)(void *), void *arg);
struct sim_task *sim_task_self(void); /* NULL: the scheduler */
struct sim_proc *sim_proc_self(void);
struct sim_proc *sim_proc_find(pid_t pid);
const char *sim_task_name(void);

/* End a process at this instant: its threads run no more, its descriptors are
 * closed. The caller may be one of its threads; then it does not return. */
void sim_proc_end(struct sim_proc *proc, int status);
void sim_proc_stop(struct sim_proc *proc, uint64_t until);
void sim_proc_signal(struct sim_proc *proc, int signo);

/* sim_ready.c: tasks that can run, unless their process is stopped, in the
 * order in which they were made. */
extern struct sim_ready {
	struct sim_task **task;
	size_t n;
} sim_ready;
void sim_ready_add(struct sim_task *t); /* if it has not ended */
void sim_ready_drop(struct sim_task *t);
/* It cannot before that time. */
void sim_ready_at(struct sim_task *t, uint64_t at);
/* The task waits for an event of the object at this address; NULL: for
 * nothing. */
void sim_ready_waits(struct sim_task *t, const void *what);
unsigned sim_ready_for(const void *what); /* add those that do; how many */
void sim_ready_look(void); /* add those whose time has come */
uint64_t sim_ready_next(void); /* when another can; SIM_NEVER: none */
/* The process was stopped until another time: update its tasks. */
void sim_tasks_stopped(const struct sim_proc *proc);

/* True once in this many times. */
bool sim_by_chance(unsigned of);
/* The current process is short of descriptors, and this call fails: errno is
 * EMFILE. */
bool sim_short(void);
/* If descriptors are short, memory is short, too. */
void sim_short_of_memory(bool on);
/* The present process gets none now. */
bool sim_no_memory(void);
/* Make addresses the same in each run, in case anything depends on them:
 * executes the program again if necessary. */
void sim_addresses_fix(char **argv);
/* Use other addresses from now on, and reuse freed memory for other objects. */
void sim_addresses_move(void);
/* Keep the memory that a seed's processes free. Called once. */
void sim_memory_stays(void);
/* Allocate this many bytes. NULL may be freed. */
#ifdef __SANITIZE_ADDRESS__
#define SIM_STACK (1u << 20)
#else
#define SIM_STACK (256u << 10)
#endif
void *sim_stack_new(void);
void sim_stack_free(void *stack);
/* The time of day is another from now on. Monotonic time goes on. */
void sim_clock_jump(int64_t ns);

/* Wait until woken, or until the time. In a task. */
void sim_wait(uint64_t until);
void sim_wait_file(struct sim_file *file, uint64_t until);
/* Whoever waits for it. */
void sim_wake_for(const void *what);
void sim_wait_for(const void *what, uint64_t until);
/* Let others run; the task stays runnable. Does nothing in the scheduler. */
void sim_yield(void); /* it did something, which others may have to look at */
void sim_look_again(void); /* it only looked whether there is something to do */
/* The same, by chance. Each system call of the simulated kernel calls this. */
void sim_point(void);

/* Run tasks until over() says so. False: nothing can ever run again. */
bool sim_run(bool (*over)(void));
uint64_t sim_steps(void);

/* The calls behind the wrapped ones. */
void __real__exit(int status) __attribute__((noreturn));

#endif
