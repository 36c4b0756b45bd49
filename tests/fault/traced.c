/* SPDX-License-Identifier: Apache-2.0 */
#include "traced.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* Turns of 100 us or more. */
#define IDLE 1500

const char *const traced_name[ROLES] = { "giver", "taker", "guard" };

bool traced_ended(const struct traced *s)
{
	for (unsigned i = 0; i < s->procs; i++) {
		if (!s->proc[i].ended)
			return false;
	}
	return true;
}

static void send_to_one(const struct traced *s, enum target t, int signo)
{
	const struct proc *p = &s->proc[t == NEXT && s->procs > 1];

	if (!p->ended)
		kill(p->pid, signo);
}

static void send_to(const struct traced *s, enum target t, int signo)
{
	send_to_one(s, t == BOTH ? FIRST : t, signo);
	if (t == BOTH && s->procs > 1)
		send_to_one(s, NEXT, signo);
}

void traced_send(struct traced *s)
{
	s->sent = true;
	send_to(s, s->target, s->signo);
}

void traced_send_then(struct traced *s)
{
	s->then_sent = true;
	send_to(s, s->then_target, s->then);
}

bool traced_all_sent(const struct traced *s)
{
	return s->sent && (!s->then || s->then_sent);
}

static void add(struct traced *s, pid_t pid, enum role role)
{
	if (s->procs == PROCS)
		abort(); /* each may begin one more at most */
	s->proc[s->procs++] = (struct proc){ .pid = pid, .role = role };
}

/* It stands still; 0 or the signal that it is about to get. */
static int look(struct traced *s, struct proc *p, int status)
{
	int signo = WSTOPSIG(status), event = status >> 16;
	unsigned long child;

	if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK) {
		ptrace(PTRACE_GETEVENTMSG, p->pid, NULL, &child);
		add(s, (pid_t)child, TAKER);
	} else if (event == PTRACE_EVENT_EXEC && p->role == GIVER) {
		p->role = GUARD;
	} else if (signo == (SIGTRAP | 0x80)) {
		s->count[p->role]++;
		if (s->sent && !traced_all_sent(s) && --s->after == 0)
			traced_send_then(s);
		if (p->role == s->when && s->count[p->role] == s->at)
			traced_send(s);
	} else if (!event && signo != SIGTRAP) {
		return signo;
	}
	return 0;
}

static bool stands(const struct traced *s, const struct proc *p)
{
	return s->freeze && s->sent && p->role == TAKER &&
	       s->idle < (s->proc[0].role == GUARD ? IDLE : 60 * IDLE) &&
	       !s->proc[0].ended;
}

void traced_turn(struct traced *s)
{
	bool idle = true;

	for (unsigned i = 0; i < s->procs; i++) {
		struct proc *p = &s->proc[i];
		int status, signo;

		if (stands(s, p) || p->ended ||
		    waitpid(p->pid, &status, __WALL | WNOHANG) <= 0)
			continue;
		idle = false;
		if (!WIFSTOPPED(status)) {
			p->ended = true;
			p->status = WIFEXITED(status) ? WEXITSTATUS(status)
						      : 128 + WTERMSIG(status);
			continue;
		}
		signo = look(s, p, status);
		ptrace(traced_all_sent(s) ? PTRACE_CONT : PTRACE_SYSCALL,
		       p->pid, NULL, (void *)(uintptr_t)signo);
	}
	s->idle += s->sent;
	if (idle)
		usleep(100);
}

void traced_begin(struct traced *s, pid_t pid)
{
	/* posix_spawn() is a vfork(). */
	long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK |
		       PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC |
		       PTRACE_O_EXITKILL;

	add(s, pid, GIVER);
	if (ptrace(PTRACE_SEIZE, pid, NULL, (void *)options) < 0) {
		printf("SKIPPED: processes cannot be traced here: %s\n",
		       strerror(errno));
		exit(77);
	}
	ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
}

/* One line of a file of proc(5). */
static void tell_line(pid_t pid, const char *task, const char *file)
{
	char path[64], line[128] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%.16s/%s", (int)pid, task,
		 file);
	f = fopen(path, "re");
	if (f && !fgets(line, sizeof(line), f))
		line[0] = '\0';
	if (f)
		fclose(f);
	line[strcspn(line, "\n")] = '\0';
	printf(" %s %s", file, line);
}

void traced_tell_tasks(pid_t pid, const char *name)
{
	const struct dirent *d;
	char path[32];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	while (dir && (d = readdir(dir))) {
		if (d->d_name[0] == '.')
			continue;
		printf("%s %d, thread %s:", name, (int)pid, d->d_name);
		tell_line(pid, d->d_name, "comm");
		tell_line(pid, d->d_name, "wchan");
		tell_line(pid, d->d_name, "syscall");
		printf("\n");
	}
	if (dir)
		closedir(dir);
}

void traced_tell(const struct traced *s)
{
	for (unsigned i = 0; i < s->procs; i++) {
		const struct proc *p = &s->proc[i];

		if (p->ended)
			printf("%s %d: ended, %d\n", traced_name[p->role],
			       (int)p->pid, p->status);
		else
			traced_tell_tasks(p->pid, traced_name[p->role]);
	}
}

void traced_kill(struct traced *s)
{
	for (unsigned i = 0; i < s->procs; i++) {
		if (!s->proc[i].ended)
			kill(s->proc[i].pid, SIGKILL);
	}
	for (unsigned i = 0; i < s->procs; i++)
		waitpid(s->proc[i].pid, NULL, __WALL);
}
