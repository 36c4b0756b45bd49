/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With --seccomp kill, the kernel kills a proxy that makes a system call that
 * is not on the filter's list. Proxies with this filter must serve clients,
 * handle the loss of a peer and answer requests for statistics. System calls
 * that injected code typically makes must end the process.
 */
#include <errno.h>
#include <linux/keyctl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "privileges.h"
#include "test.h"
#include "victim.h"

static struct node node[2];

static void ctl(const char *word, const char *more)
{
	const char *argv[] = { "mpibctl", "-s", node[0].dir, word, more, NULL };
	struct run run;

	run_wait(&run, argv);
	if (run.status != 0)
		fail_msg("mpibctl %s: %d: %s", word, run.status, run.err);
}

TEST(a_proxy_makes_only_the_system_calls_of_its_list)
{
	const char *const args[] = { "--seccomp", "kill", NULL };
	static const char *const words[] = { "ping",	"info",	   "rails",
					     "conns",	"clients", "peers",
					     "metrics", "events" };
	struct victim *v;

	attack_needs_root();
	v = victim_between(node, args);
	victim_goes_on(v, 100);
	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		ctl(words[i], NULL);
	victim_goes_on(v, 1000);
	victim_leave(v, node);
}

/* System calls that leave a container, read other processes' memory or keys,
 * load modules, execute another program, or change the user. With
 * MPIB_SECCOMP_KILL, each of these calls must end the process with SIGSYS. With
 * MPIB_SECCOMP_YES, each must fail. */
static long forbidden_call(unsigned n)
{
	switch (n) {
	case 0:
		return ptrace(PTRACE_TRACEME, 0, 0, 0);
	case 1:
		return syscall(SYS_process_vm_readv, getpid(), NULL, 0, NULL, 0,
			       0);
	case 2:
		return syscall(SYS_mount, "none", "/", NULL, 0, NULL);
	case 3:
		return syscall(SYS_unshare, 0);
	case 4:
		return syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, 0, 0);
	case 5:
		return syscall(SYS_bpf, 0, NULL, 0);
	case 6:
		return syscall(SYS_perf_event_open, NULL, 0, 0, 0, 0);
	case 7:
		return syscall(SYS_setns, -1, 0);
	case 8:
		return syscall(SYS_init_module, NULL, 0, "");
	case 9:
		return syscall(SYS_execve, "", NULL, NULL);
	case 10:
		return syscall(SYS_setuid, 0);
	case 11:
		return syscall(SYS_capset, NULL, NULL);
	default:
		return syscall(SYS_userfaultfd, 0);
	}
}

static int call_in_filter(unsigned n, enum mpib_seccomp how)
{
	const struct mpib_config cfg = { .seccomp = how };
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		mpib_sandbox(&cfg);
		errno = 0;
		_exit(forbidden_call(n) < 0 && errno == EPERM ? 7 : 8);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status)
				   : WEXITSTATUS(status);
}

TEST(system_calls_outside_the_list_fail_or_end_the_process)
{
#ifdef MPIB_TRACED
	skip_as("a sanitizer makes other system calls");
#endif
	for (unsigned n = 0; n < 13; n++) {
		assert_int_equal(call_in_filter(n, MPIB_SECCOMP_YES), 7);
		assert_int_equal(call_in_filter(n, MPIB_SECCOMP_KILL),
				 128 + SIGSYS);
	}
	assert_int_equal(call_in_filter(3, MPIB_SECCOMP_NO), 8);
}
