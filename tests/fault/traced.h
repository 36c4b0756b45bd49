/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of an upgrade under ptrace: one is told to stop, or killed, at a
 * stop of its own or of another's. Of each the main thread alone is traced, and
 * has two stops a system call. All calls from one thread.
 */
#ifndef MPIB_TESTS_TRACED_H
#define MPIB_TESTS_TRACED_H

#include <stdbool.h>
#include <sys/types.h>

#define PROCS 6 /* further upgrades may be asked for */

enum role {
	GIVER, /* the first process, until it executes the guard */
	TAKER,
	GUARD,
	ROLES,
};
extern const char *const traced_name[ROLES];

/* Main threads only: no other thread is told of signals. */
struct proc {
	pid_t pid;
	enum role role;
	bool ended;
	int status;
};

enum target {
	FIRST,
	NEXT,
	BOTH,
};

struct traced {
	struct proc proc[PROCS];
	unsigned procs;
	unsigned long count[ROLES];
	enum role when;
	unsigned long at; /* of count[when]; 0: never */
	enum target target;
	int signo;
	bool sent;
	/* A second signal, after so many stops more of whichever process; 0: none. */
	int then;
	enum target then_target;
	unsigned long after;
	bool then_sent;
	/* From the signal on the taker stands still, until the giver has left,
	 * or has given it up, and has had time for all else. */
	bool freeze;
	unsigned idle;
};

/* Trace the first process, a child of ours, and those that it starts. Where that
 * is not possible the test is skipped. */
void traced_begin(struct traced *s, pid_t pid);
/* One look at each: let it go on, and send the signal when it is time. */
void traced_turn(struct traced *s);
/* At once. */
void traced_send(struct traced *s);
void traced_send_then(struct traced *s);
/* Nothing is to be sent any more. */
bool traced_all_sent(const struct traced *s);
bool traced_ended(const struct traced *s);
/* What each thread of them, or of any process, waits for, to the standard output;
 * wchan is ptrace_stop where it is us. */
void traced_tell(const struct traced *s);
void traced_tell_tasks(pid_t pid, const char *name);
/* Kill what is left. */
void traced_kill(struct traced *s);

#endif
