/* SPDX-License-Identifier: Apache-2.0 */
/* No core files, and a filter of system calls. */
#include "privileges.h"

#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/log.h"

/* A sanitizer traces its own process, and makes other system calls. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||     \
	__has_feature(memory_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

void mpib_keep_secrets(const struct mpib_config *cfg)
{
	const struct rlimit none = { 0, 0 };

	if (cfg->core)
		return;
	if (setrlimit(RLIMIT_CORE, &none) < 0 ||
	    (!SANITIZED && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0))
		mpib_warn("a crash may leave a core file with users' data: %m "
			  "(limit it: ulimit -c 0)");
}

/* The system calls of the proxy and of the libraries that it links: the C
 * library, libibverbs and its drivers, liburing, libmicrohttpd, libsystemd. */
static const char *const allowed[] = {
	/* the calls of shards */
	"io_uring_enter epoll_pwait read write recvmsg sendmsg recvfrom",
	"sendto ppoll futex timerfd_settime clock_gettime gettimeofday",
	"clock_nanosleep nanosleep sched_yield ioctl",
	/* files */
	"openat close close_range readv writev pread64 pwrite64 preadv",
	"pwritev lseek fstat newfstatat statx statfs fstatfs faccessat",
	"faccessat2 readlinkat getdents64 mkdirat unlinkat renameat",
	"renameat2 linkat symlinkat fchmod fchmodat fchown fchownat",
	"ftruncate fallocate fsync fdatasync flock fcntl dup dup3 pipe2",
	"umask getcwd chdir fchdir utimensat fadvise64 inotify_init1",
	"inotify_add_watch inotify_rm_watch eventfd2 signalfd4",
	"memfd_create sendfile epoll_create1 epoll_ctl pselect6",
	"timerfd_create timerfd_gettime io_uring_setup",
	"io_uring_register",
	/* sockets */
	"socket socketpair bind listen accept accept4 connect",
	"getsockname getpeername setsockopt getsockopt shutdown",
	"recvmmsg sendmmsg",
	/* memory */
	"mmap munmap mremap mprotect madvise brk mlock mlock2 munlock",
	"msync mincore get_mempolicy mbind membarrier rseq",
	/* processes and threads */
	"clone clone3 exit exit_group wait4 waitid kill tgkill tkill",
	"getpid getppid gettid getpgid getsid setsid setpgid",
	"set_tid_address set_robust_list get_robust_list pidfd_open",
	"pidfd_send_signal prctl prlimit64 getrusage sysinfo uname",
	"times getcpu sched_getaffinity sched_setaffinity",
	"sched_getparam sched_getscheduler sched_get_priority_max",
	"sched_get_priority_min getpriority kcmp",
	/* signals and time */
	"rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending",
	"rt_sigsuspend rt_sigtimedwait rt_sigqueueinfo",
	"rt_tgsigqueueinfo sigaltstack restart_syscall clock_getres",
	"setitimer getitimer timer_create timer_settime timer_delete",
	"getrandom getuid geteuid getgid getegid getresuid getresgid",
	"getgroups",
	/* calls that only older architectures have, such as x86-64 */
	"epoll_wait poll select open stat lstat access readlink",
	"getdents mkdir rmdir unlink rename link symlink chmod chown",
	"lchown dup2 pipe eventfd signalfd epoll_create inotify_init",
	"fork getpgrp getrlimit setrlimit alarm pause time arch_prctl",
	"creat",
};

/* Names that this architecture or this libseccomp does not know are skipped. */
static int allow(scmp_filter_ctx filter, const char *names)
{
	char list[128], *save;
	int rc = 0;

	snprintf(list, sizeof(list), "%s", names);
	for (char *name = strtok_r(list, " ", &save); name && rc == 0;
	     name = strtok_r(NULL, " ", &save)) {
		int number = seccomp_syscall_resolve_name(name);

		if (number >= 0)
			rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, number,
					      0);
	}
	return rc;
}

static int set_filter(uint32_t other)
{
	scmp_filter_ctx filter = seccomp_init(other);
	int rc;

	if (!filter)
		return -ENOMEM;
	rc = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, other);
	/* Make the filter a binary tree, which is fast: shards make system
	 * calls. */
	if (rc == 0)
		rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
		rc = rc < 0 ? rc : allow(filter, allowed[i]);
	if (rc == 0)
		rc = seccomp_load(filter);
	seccomp_release(filter);
	return rc;
}

void mpib_sandbox(const struct mpib_config *cfg)
{
	int rc;

	if (cfg->seccomp == MPIB_SECCOMP_NO || SANITIZED)
		return;
	rc = set_filter(cfg->seccomp == MPIB_SECCOMP_KILL
				? SCMP_ACT_KILL_PROCESS
				: SCMP_ACT_ERRNO(EPERM));
	if (rc < 0)
		mpib_warn("proxy.seccomp: no filter of system calls: %s (set "
			  "it to no, or use a kernel with seccomp)",
			  strerror(-rc));
}
