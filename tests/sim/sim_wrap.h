/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls that the simulated kernel implements. The linker option
 * --wrap (wrapped.txt) makes the real code call __wrap_NAME(). __real_NAME() is
 * the original function.
 */
#ifndef SIM_WRAP_H
#define SIM_WRAP_H

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

struct group;
struct ifaddrs;
struct sim_sock;
struct mpib_rail_spec;
struct mpib_spawn;
struct mpib_agent_link;
struct mpib_wr_pool;
struct mpib_verbs;

/* sim_message.c: implement send and recv. Return -errno on failure. */
ssize_t sim_sock_put(struct sim_sock *s, struct msghdr *msg);
ssize_t sim_sock_take(struct sim_sock *s, struct msghdr *msg);
int sim_pidfd(pid_t pid);

int __real_close(int fd);
int __real_fclose(FILE *file);
ssize_t __real_read(int fd, void *buf, size_t len);
ssize_t __real_write(int fd, const void *buf, size_t len);
int __real_fcntl(int fd, int cmd, ...);
int __real_poll(struct pollfd *p, nfds_t n, int ms);
int __real_open(const char *path, int flags, ...);
int __real_openat(int dir, const char *path, int flags, ...);
int __real_fchmod(int fd, mode_t mode);
int __real_memfd_create(const char *name, unsigned flags);
int __real_madvise(void *at, size_t len, int advice);
void *__real_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off);
int __real_pthread_mutex_trylock(pthread_mutex_t *m);
int __real_pthread_mutex_unlock(pthread_mutex_t *m);
long __real_syscall(long number, ...);
pid_t __real_waitpid(pid_t pid, int *status, int options);
int __real_sigaction(int signo, const struct sigaction *act,
		     struct sigaction *old);
int __real_clock_gettime(clockid_t clock, struct timespec *ts);

int __wrap_close(int fd);
int __wrap_fclose(FILE *file);
ssize_t __wrap_read(int fd, void *buf, size_t len);
ssize_t __wrap_write(int fd, const void *buf, size_t len);
ssize_t __wrap_preadv2(int fd, const struct iovec *iov, int n, off_t off,
		       int flags);
int __wrap_fcntl(int fd, int cmd, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...);
int __wrap_fchmod(int fd, mode_t mode);
int __wrap_memfd_create(const char *name, unsigned flags);
int __wrap_madvise(void *at, size_t len, int advice);
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off);

int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int __wrap_epoll_wait(int epfd, struct epoll_event *out, int most, int ms);
int __wrap_mincore(void *at, size_t len, unsigned char *there);
int __wrap_poll(struct pollfd *p, nfds_t n, int ms);

int __wrap_eventfd(unsigned count, int flags);
int __wrap_eventfd_write(int fd, eventfd_t n);
int __wrap_eventfd_read(int fd, eventfd_t *n);
int __wrap_timerfd_create(int clock, int flags);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *set,
			   struct itimerspec *old);
int __wrap_signalfd(int fd, const sigset_t *set, int flags);

int __wrap_socket(int domain, int type, int protocol);
int __wrap_socketpair(int domain, int type, int protocol, int fd[2]);
int __wrap_pipe2(int fd[2], int flags);
int __wrap_bind(int fd, const struct sockaddr *addr, socklen_t len);
int __wrap_listen(int fd, int backlog);
int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t len);
int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);
int __wrap_getsockname(int fd, struct sockaddr *addr, socklen_t *len);
int __wrap_getpeername(int fd, struct sockaddr *addr, socklen_t *len);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_setsockopt(int fd, int level, int name, const void *value,
		      socklen_t len);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags);
int __wrap_shutdown(int fd, int how);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_nanosleep(clockid_t clock, int flags,
			   const struct timespec *ts, struct timespec *left);
int __wrap_usleep(useconds_t us);
int __wrap_sched_yield(void);
ssize_t __wrap_getrandom(void *buf, size_t len, unsigned flags);
void __wrap_randombytes_buf(void *buf, size_t len);

int __wrap_mpib_fail(int rc, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
const char *__wrap_mpib_strerror(void);
int __wrap_mpib_thread_start(pthread_t *thread, void *(*run)(void *),
			     void *arg);
void __wrap_mpib_thread_join(pthread_t thread);
bool __wrap_mpib_mutex_try(pthread_mutex_t *m);
struct mpib_client;
uint32_t __wrap_mpib_keep(struct mpib_client *c, int fd);
int __wrap_mpib_keep_lend(const struct mpib_client *c, uint32_t kept);
void __wrap_mpib_keep_close(const struct mpib_client *c, uint32_t kept);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			  void *(*fn)(void *), void *arg);
int __wrap_pthread_join(pthread_t thread, void **result);
pthread_t __wrap_pthread_self(void);
int __wrap_pthread_setname_np(pthread_t thread, const char *name);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __wrap_pthread_cond_signal(pthread_cond_t *c);
int __wrap_pthread_cond_broadcast(pthread_cond_t *c);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);

void *__wrap_calloc(size_t n, size_t size);
uint64_t __wrap_mpib_memory_bound(void);
pid_t __wrap_getpid(void);
int __wrap_kill(pid_t pid, int signo);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);
void __wrap__exit(int status) __attribute__((noreturn));
int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_sigpending(sigset_t *set);
int __wrap_sigaction(int signo, const struct sigaction *act,
		     struct sigaction *old);
long __wrap_syscall(long number, ...);
int __wrap_hwloc_topology_load(void *topology);
int __wrap_getifaddrs(struct ifaddrs **all);
struct group *__wrap_getgrnam(const char *name);

/* These functions are replaced, too. They are not system calls. */
const struct mpib_verbs *__wrap_mpib_verbs_of(const struct mpib_rail_spec *s);
int __wrap_mpib_spawn(const struct mpib_spawn *how, int *sock, pid_t *pid);
uint8_t __wrap_mpib_agent_sick(const struct mpib_agent_link *link);
int __wrap_mpib_spawn_guard(int inherited, bool daemon, int *link);
int __wrap_mpib_wr_pool_init(struct mpib_wr_pool *pool);
int __real_mpib_wr_pool_init(struct mpib_wr_pool *pool);
void __wrap_mpib_wr_pool_fini(struct mpib_wr_pool *pool);
void __real_mpib_wr_pool_fini(struct mpib_wr_pool *pool);

#endif
