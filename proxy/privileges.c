/* SPDX-License-Identifier: Apache-2.0 */
/* Dropping privileges at start-up. */
#include "privileges.h"

#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <stddef.h>
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

#define GROUPS_MAX 256 /* of a user; the kernel has more */

static int make_run_dir(const struct mpib_config *cfg, const struct passwd *pw,
			char *why)
{
	const struct group *gr = getgrnam(cfg->run_group);

	if (mkdir(cfg->run_dir, 0750) < 0) {
		if (errno == EEXIST)
			return 0; /* mpib_rundir_open() checks its owner */
	} else if (chown(cfg->run_dir, pw->pw_uid,
			 gr ? gr->gr_gid : pw->pw_gid) == 0 &&
		   chmod(cfg->run_dir, 0750) == 0) { /* despite the umask */
		return 0;
	}
	return mpib_why_fail(
		why, -errno,
		"run directory %s: %s (create its parent, or give --run-dir)",
		cfg->run_dir, strerror(errno));
}

/* The admin socket's directory beside the run directory, whose parent only root
 * may write to. If it cannot be made, the proxy logs that and continues. */
static void make_admin_dir(const struct mpib_config *cfg,
			   const struct passwd *pw)
{
	char path[MPIB_ADMIN_PATH_MAX];

	if (mpib_admin_dir(cfg->run_dir, path, sizeof(path)) &&
	    mkdir(path, 0700) == 0 && chown(path, pw->pw_uid, pw->pw_gid) < 0)
		rmdir(path);
}

/* Registering locks memory, and an ordinary user's limit is usually too low.
 * If even root may not raise it, as in a container, the registration that
 * exceeds the limit reports it. */
static void allow_locked_memory(void)
{
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };

	if (setrlimit(RLIMIT_MEMLOCK, &all) == 0 ||
	    getrlimit(RLIMIT_MEMLOCK, &all) < 0)
		return;
	all.rlim_cur = all.rlim_max;
	setrlimit(RLIMIT_MEMLOCK, &all);
}

/* Join the user's groups and run.group: otherwise the proxy could not give the
 * sockets to run.group, and no member of it could attach. */
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

/* Keep one of root's rights: to forbid users to punch holes into memory that
 * the proxy shares with them (base/memseg.c). A program that replaces this one
 * by execve() inherits it. */
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

/* A sanitizer's leak checker traces its own process. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TRACED_BY_ITSELF true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TRACED_BY_ITSELF true
#endif
#endif
#ifndef TRACED_BY_ITSELF
#define TRACED_BY_ITSELF false
#endif

void mpib_keep_secrets(const struct mpib_config *cfg)
{
	const struct rlimit none = { 0, 0 };

	if (cfg->core)
		return;
	if (setrlimit(RLIMIT_CORE, &none) < 0 ||
	    (!TRACED_BY_ITSELF && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0))
		mpib_warn("a crash may leave a core file with users' data: %m "
			  "(limit it: ulimit -c 0)");
}

/* The system calls of the proxy and of the libraries that it links: the C
 * library, libibverbs and its drivers, liburing, libmicrohttpd, libsystemd. */

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

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

#ifdef ARCH

/* The calls of shards come first. */
static const int allowed[] = {
	SYS_io_uring_enter,
	SYS_epoll_pwait,
	SYS_read,
	SYS_write,
	SYS_recvmsg,
	SYS_sendmsg,
	SYS_recvfrom,
	SYS_sendto,
	SYS_ppoll,
	SYS_futex,
	SYS_timerfd_settime,
	SYS_clock_gettime,
	SYS_gettimeofday,
	SYS_clock_nanosleep,
	SYS_nanosleep,
	SYS_sched_yield,
	SYS_ioctl,
	/* files */
	SYS_openat,
	SYS_close,
	SYS_close_range,
	SYS_readv,
	SYS_writev,
	SYS_pread64,
	SYS_pwrite64,
	SYS_preadv,
	SYS_pwritev,
	SYS_lseek,
	SYS_fstat,
	SYS_newfstatat,
	SYS_statx,
	SYS_statfs,
	SYS_fstatfs,
	SYS_faccessat,
	SYS_faccessat2,
	SYS_readlinkat,
	SYS_getdents64,
	SYS_mkdirat,
	SYS_unlinkat,
	SYS_renameat,
	SYS_renameat2,
	SYS_linkat,
	SYS_symlinkat,
	SYS_fchmod,
	SYS_fchmodat,
	SYS_fchown,
	SYS_fchownat,
	SYS_ftruncate,
	SYS_fallocate,
	SYS_fsync,
	SYS_fdatasync,
	SYS_flock,
	SYS_fcntl,
	SYS_dup,
	SYS_dup3,
	SYS_pipe2,
	SYS_umask,
	SYS_getcwd,
	SYS_chdir,
	SYS_fchdir,
	SYS_utimensat,
	SYS_fadvise64,
	SYS_inotify_init1,
	SYS_inotify_add_watch,
	SYS_inotify_rm_watch,
	SYS_eventfd2,
	SYS_signalfd4,
	SYS_memfd_create,
	SYS_sendfile,
	SYS_epoll_create1,
	SYS_epoll_ctl,
	SYS_pselect6,
	SYS_timerfd_create,
	SYS_timerfd_gettime,
	SYS_io_uring_setup,
	SYS_io_uring_register,
	/* sockets */
	SYS_socket,
	SYS_socketpair,
	SYS_bind,
	SYS_listen,
	SYS_accept,
	SYS_accept4,
	SYS_connect,
	SYS_getsockname,
	SYS_getpeername,
	SYS_setsockopt,
	SYS_getsockopt,
	SYS_shutdown,
	SYS_recvmmsg,
	SYS_sendmmsg,
	/* memory */
	SYS_mmap,
	SYS_munmap,
	SYS_mremap,
	SYS_mprotect,
	SYS_madvise,
	SYS_brk,
	SYS_mlock,
	SYS_mlock2,
	SYS_munlock,
	SYS_msync,
	SYS_mincore,
	SYS_get_mempolicy,
	SYS_mbind,
	SYS_membarrier,
	SYS_rseq,
	/* processes and threads */
	SYS_clone,
	SYS_clone3,
	SYS_exit,
	SYS_exit_group,
	SYS_wait4,
	SYS_waitid,
	SYS_kill,
	SYS_tgkill,
	SYS_tkill,
	SYS_getpid,
	SYS_getppid,
	SYS_gettid,
	SYS_getpgid,
	SYS_getsid,
	SYS_setsid,
	SYS_setpgid,
	SYS_set_tid_address,
	SYS_set_robust_list,
	SYS_get_robust_list,
	SYS_pidfd_open,
	SYS_pidfd_send_signal,
	SYS_prctl,
	SYS_prlimit64,
	SYS_getrusage,
	SYS_sysinfo,
	SYS_uname,
	SYS_times,
	SYS_getcpu,
	SYS_sched_getaffinity,
	SYS_sched_setaffinity,
	SYS_sched_getparam,
	SYS_sched_getscheduler,
	SYS_sched_get_priority_max,
	SYS_sched_get_priority_min,
	SYS_getpriority,
	SYS_kcmp,
	/* signals and time */
	SYS_rt_sigaction,
	SYS_rt_sigprocmask,
	SYS_rt_sigreturn,
	SYS_rt_sigpending,
	SYS_rt_sigsuspend,
	SYS_rt_sigtimedwait,
	SYS_rt_sigqueueinfo,
	SYS_rt_tgsigqueueinfo,
	SYS_sigaltstack,
	SYS_restart_syscall,
	SYS_clock_getres,
	SYS_setitimer,
	SYS_getitimer,
	SYS_timer_create,
	SYS_timer_settime,
	SYS_timer_delete,
	SYS_getrandom,
	SYS_getuid,
	SYS_geteuid,
	SYS_getgid,
	SYS_getegid,
	SYS_getresuid,
	SYS_getresgid,
	SYS_getgroups,
#ifdef __x86_64__
	SYS_epoll_wait,
	SYS_poll,
	SYS_select,
	SYS_open,
	SYS_stat,
	SYS_lstat,
	SYS_access,
	SYS_readlink,
	SYS_getdents,
	SYS_mkdir,
	SYS_rmdir,
	SYS_unlink,
	SYS_rename,
	SYS_link,
	SYS_symlink,
	SYS_chmod,
	SYS_chown,
	SYS_lchown,
	SYS_dup2,
	SYS_pipe,
	SYS_eventfd,
	SYS_signalfd,
	SYS_epoll_create,
	SYS_inotify_init,
	SYS_fork,
	SYS_getpgrp,
	SYS_getrlimit,
	SYS_setrlimit,
	SYS_alarm,
	SYS_pause,
	SYS_time,
	SYS_arch_prctl,
	SYS_creat,
#endif
};

#define ALLOWED (sizeof(allowed) / sizeof(allowed[0]))
#define AHEAD 4 /* instructions before the list */

static struct sock_filter load(size_t offset)
{
	return (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					    (uint32_t)offset);
}

static struct sock_filter answer(uint32_t action)
{
	return (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
}

/* Continue with the next instruction if the loaded value is value, else skip
 * it. */
static struct sock_filter if_is(uint32_t value)
{
	return (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0,
					    1);
}

static int set_filter(uint32_t other)
{
	struct sock_filter code[AHEAD + 2 * ALLOWED + 1];
	struct sock_fprog prog = { .filter = code };
	unsigned short n = 0;

	code[n++] = load(offsetof(struct seccomp_data, arch));
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
						 ARCH, 1, 0);
	code[n++] = answer(other);
	code[n++] = load(offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < ALLOWED; i++) {
		code[n++] = if_is((uint32_t)allowed[i]);
		code[n++] = answer(SECCOMP_RET_ALLOW);
	}
	code[n++] = answer(other);
	prog.len = n;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)
		return -errno;
	return 0;
}

#else

static int set_filter(uint32_t other)
{
	(void)other;
	return -EOPNOTSUPP;
}

#endif

void mpib_sandbox(const struct mpib_config *cfg)
{
	int rc;

	if (cfg->seccomp == MPIB_SECCOMP_NO || SANITIZED)
		return;
	rc = set_filter(cfg->seccomp == MPIB_SECCOMP_KILL
				? SECCOMP_RET_KILL_PROCESS
				: SECCOMP_RET_ERRNO | EPERM);
	if (rc < 0)
		mpib_warn("proxy.seccomp: no filter of system calls: %s (set "
			  "it to no, or use a kernel with seccomp)",
			  strerror(-rc));
}
