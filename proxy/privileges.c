/* SPDX-License-Identifier: Apache-2.0 */
/* Dropping privileges at start-up. */
#include "privileges.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/run_dir.h"
#include "rundir.h"

#define GROUPS_MAX 256 /* groups of a user; the kernel allows more */

static int make_run_dir(const struct mpib_config *cfg, const struct passwd *pw,
			char *why)
{
	const struct group *gr = getgrnam(cfg->run_group);

	if (mkdir(cfg->run_dir, 0750) < 0) {
		if (errno == EEXIST)
			return 0; /* mpib_rundir_open() checks its owner */
	} else if (chown(cfg->run_dir, pw->pw_uid,
			 gr ? gr->gr_gid : pw->pw_gid) == 0 &&
		   chmod(cfg->run_dir, 0750) == 0) { /* undo the umask */
		return 0;
	}
	return mpib_why_fail(
		why, -errno,
		"run directory %s: %s (create its parent, or give --run-dir)",
		cfg->run_dir, strerror(errno));
}

/* Make the admin socket's directory beside the run directory, because only root
 * may write to their parent. If it cannot be made, the proxy later logs that
 * and continues. */
static void make_admin_dir(const struct mpib_config *cfg,
			   const struct passwd *pw)
{
	char path[MPIB_ADMIN_PATH_MAX];

	if (mpib_admin_dir(cfg->run_dir, path, sizeof(path)) &&
	    mkdir(path, 0700) == 0 && chown(path, pw->pw_uid, pw->pw_gid) < 0)
		rmdir(path);
}

/* Raise the limit of locked memory: registering locks memory, and an ordinary
 * user's limit is usually too low. If even root may not raise it, as in a
 * container, a registration that exceeds the limit reports that. */
static void allow_locked_memory(void)
{
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };

	if (setrlimit(RLIMIT_MEMLOCK, &all) == 0 ||
	    getrlimit(RLIMIT_MEMLOCK, &all) < 0)
		return;
	all.rlim_cur = all.rlim_max;
	setrlimit(RLIMIT_MEMLOCK, &all);
}

/* Join the user's groups and run.group. Otherwise the proxy could not give the
 * sockets to run.group, and no member of the group could attach. */
static int join_groups(const struct passwd *pw, const struct group *gr)
{
	gid_t list[GROUPS_MAX];
	int n;

	if (initgroups(pw->pw_name, pw->pw_gid) < 0)
		return -1;
	if (!gr)
		return 0;
	n = getgroups(GROUPS_MAX - 1, list);
	if (n < 0)
		return -1;
	list[n] = gr->gr_gid;
	return setgroups((size_t)n + 1, list);
}

/* Drop all rights of root except one. The proxy keeps the right to seal shared
 * memory against holes (base/memseg.c). A program that replaces this one by
 * execve() inherits that right. */
static int drop_rights(void)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct had[2], one[2] = { 0 };

	if (syscall(SYS_capget, &h, had) < 0)
		return -1;
	one[0].permitted = had[0].permitted & CAP_TO_MASK(CAP_LINUX_IMMUTABLE);
	one[0].effective = one[0].inheritable = one[0].permitted;
	if (syscall(SYS_capset, &h, one) < 0)
		return -1;
	return one[0].permitted ? prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE,
					CAP_LINUX_IMMUTABLE, 0, 0)
				: 0;
}

static int drop_become(const struct passwd *pw, const char *group)
{
	allow_locked_memory();
	if (join_groups(pw, getgrnam(group)) < 0 ||
	    setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) < 0 ||
	    prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 ||
	    setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid) < 0 ||
	    drop_rights() < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return 0;
}

int mpib_drop(const struct mpib_config *cfg, char *why)
{
	const struct passwd *pw;
	int rc;

	if (!cfg->run_user[0])
		return 0;
	errno = 0;
	pw = getpwnam(cfg->run_user);
	if (!pw)
		return mpib_why_fail(
			why, -ENOENT,
			"run.user: there is no user \"%s\" (create it, or "
			"give another --run-user)",
			cfg->run_user);
	if (pw->pw_uid == geteuid())
		return 0;
	if (geteuid() != 0)
		return mpib_why_fail(
			why, -EPERM,
			"run.user: only root can become \"%s\" (start as root "
			"or as that user)",
			cfg->run_user);
	rc = make_run_dir(cfg, pw, why);
	if (rc < 0)
		return rc;
	make_admin_dir(cfg, pw);
	rc = drop_become(pw, cfg->run_group);
	if (rc < 0)
		snprintf(why, MPIB_WHY_MAX, "run.user: becoming \"%s\": %s",
			 cfg->run_user, strerror(-rc));
	return rc;
}

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
