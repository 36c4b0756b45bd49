/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_child.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim_task.h"
#include "sim_wrap.h"

/* CPU seconds after which a seed counts as hung. */
#ifdef __SANITIZE_ADDRESS__
#define CPU_S 300
#else
#define CPU_S 60
#endif

/* This function exists only in a build that counts executed lines, see
 * tests/sim/coverage. */
void sim_gcov_dump(void) __asm__("__gcov_dump") __attribute__((weak));

static void on_crash(int signo)
{
	fprintf(stderr, "FOUND: %s\n", strsignal(signo));
	sim_trace_dump(60);
	signal(signo, SIG_DFL);
	raise(signo);
}

static void child(const struct sim_ask *ask, uint64_t seed,
		  const struct sim_smaller *s, struct sim_result *result)
{
	static char stack[1 << 16];
	const stack_t alt = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction act = { .sa_handler = on_crash,
				 .sa_flags = SA_ONSTACK };
	const struct rlimit cpu = { CPU_S, CPU_S };
	struct sim_plan plan;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigaltstack(&alt, NULL);
	__real_sigaction(SIGABRT, &act, NULL);
#ifndef __SANITIZE_ADDRESS__
	__real_sigaction(SIGSEGV, &act, NULL);
	__real_sigaction(SIGBUS, &act, NULL);
#endif
	setrlimit(RLIMIT_CPU, &cpu);
	sim_plan_draw(&plan, seed, ask->messages);
	if (s)
		sim_plan_shrink(&plan, s);
	if (sim_verbose)
		sim_plan_print(&plan);
	sim_seed_run(&plan, result);
	for (unsigned i = 0; ask->suspect && i < SIM_FAULT_KINDS; i++) {
		if (result->fault[i] &&
		    !strcmp(ask->suspect,
			    sim_fault_name((enum sim_fault_kind)i)))
			sim_fail("%s happened", ask->suspect);
	}
	if (sim_gcov_dump)
		sim_gcov_dump();
	__real__exit(0);
}

pid_t sim_child_start(const struct sim_ask *ask, uint64_t seed,
		      const struct sim_smaller *smaller,
		      struct sim_result *result, bool quiet)
{
	pid_t pid;

	memset(result, 0, sizeof(*result));
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		if (quiet && !freopen("/dev/null", "w", stderr))
			__real__exit(2);
		if (quiet)
			sim_addresses_move();
		child(ask, seed, smaller, result);
	}
	if (pid < 0) {
		perror("sim: fork");
		exit(2);
	}
	return pid;
}

int sim_child_status(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool sim_child_unrun(int status)
{
	return status == SIM_LACKS || status == 128 + SIGKILL;
}
