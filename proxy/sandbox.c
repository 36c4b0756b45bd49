/* SPDX-License-Identifier: Apache-2.0 */
/* The calls are those of the proxy and of what it is linked with: the C library,
 * libibverbs and its drivers, liburing, libmicrohttpd, libsystemd. */
#include "sandbox.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"

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

/* What shards call comes first. */
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

/* The next instruction if what was loaded is value, else that behind it. */
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
		mpib_warn("proxy.seccomp: there is no filter of system calls: "
			  "%s (say no, or use a kernel that has seccomp)",
			  strerror(-rc));
}
