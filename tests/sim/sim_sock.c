/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_sock.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "sim_task.h"
#include "sim_wrap.h"

#define PEERPIDFD 77

static LIST_HEAD(, sim_sock) listeners = LIST_HEAD_INITIALIZER(listeners);
static uint16_t ports = 32768;

static uint32_t sock_ready(struct sim_file *f)
{
	const struct sim_sock *s = (struct sim_sock *)f;
	uint32_t ready = s->err ? EPOLLERR | EPOLLIN | EPOLLOUT : 0;

	if (s->state == SIM_SOCK_LISTENS)
		return TAILQ_FIRST(&s->backlog) ? EPOLLIN : 0;
	if (s->state != SIM_SOCK_OPEN)
		return ready;
	if (TAILQ_FIRST(&s->in->arrived))
		ready |= EPOLLIN;
	if (s->in->eof)
		ready |= EPOLLIN | EPOLLRDHUP;
	if (s->in->eof && (s->out->ended || s->domain == AF_UNIX))
		ready |= EPOLLHUP;
	if (sim_flow_room(s->out))
		ready |= EPOLLOUT;
	return ready;
}

static void sock_close(struct sim_file *f)
{
	struct sim_sock *s = (struct sim_sock *)f, *waits;

	sim_event_disarm(&s->dial);
	if (s->state == SIM_SOCK_LISTENS) {
		LIST_REMOVE(s, listening);
		while ((waits = TAILQ_FIRST(&s->backlog))) {
			TAILQ_REMOVE(&s->backlog, waits, queued);
			sim_file_put(&waits->file);
		}
	}
	if (s->out)
		sim_flows_leave(s);
}

static ssize_t sock_read(struct sim_file *f, void *buf, size_t len)
{
	struct iovec iov = { buf, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	return sim_sock_take((struct sim_sock *)f, &msg);
}

static ssize_t sock_write(struct sim_file *f, const void *buf, size_t len)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	return sim_sock_put((struct sim_sock *)f, &msg);
}

static const struct sim_file_ops sim_sock_ops = {
	.ready = sock_ready,
	.read = sock_read,
	.write = sock_write,
	.close = sock_close,
};

struct sim_sock *sim_sock_of(int fd)
{
	struct sim_file *f = sim_fd_file(fd);

	if (f && f->ops != &sim_sock_ops) {
		errno = ENOTSOCK;
		return NULL;
	}
	return (struct sim_sock *)f;
}

static struct sim_sock *sim_sock_new(int domain, int type)
{
	struct sim_sock *s = sim_file_new(&sim_sock_ops, sizeof(*s));

	s->domain = domain;
	s->type = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
	s->file.nonblock = type & SOCK_NONBLOCK;
	TAILQ_INIT(&s->backlog);
	return s;
}

int __wrap_socket(int domain, int type, int protocol)
{
	(void)protocol;
	if (sim_short())
		return -1;
	return sim_fd_new(&sim_sock_new(domain, type)->file);
}

static void know(struct sim_sock *s, const struct sim_proc *p)
{
	s->peer = (struct ucred){ .pid = p->pid, .uid = p->uid, .gid = p->uid };
}

int __wrap_socketpair(int domain, int type, int protocol, int fd[2])
{
	struct sim_sock *a = sim_sock_new(domain, type);
	struct sim_sock *b = sim_sock_new(domain, type);

	(void)protocol;
	sim_flow_join(a, b);
	know(a, sim_proc_self());
	know(b, sim_proc_self());
	fd[0] = sim_fd_new(&a->file);
	fd[1] = sim_fd_new(&b->file);
	return 0;
}

int __wrap_pipe2(int fd[2], int flags)
{
	(void)flags;
	return __wrap_socketpair(AF_UNIX, SOCK_STREAM, 0, fd);
}

static int sock_refuse(int error)
{
	errno = error;
	return -1;
}

static struct sim_sock *listener_at(const struct sockaddr *to)
{
	const struct sockaddr_un *un = (const void *)to;
	const struct sockaddr_in *in = (const void *)to;
	struct sim_sock *s;

	LIST_FOREACH(s, &listeners, listening)
	{
		if (to->sa_family != s->domain)
			continue;
		if (s->domain == AF_UNIX ? !strcmp(s->path, un->sun_path)
					 : s->addr.sin_port == in->sin_port &&
						   s->addr.sin_addr.s_addr ==
							   in->sin_addr.s_addr)
			return s;
	}
	return NULL;
}

/* For a Unix socket, create the socket's file in the real file system, too. */
int __wrap_bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct sim_sock *s = sim_sock_of(fd);
	int file;

	(void)len;
	if (!s)
		return -1;
	if (s->domain == AF_UNIX) {
		const struct sockaddr_un *un = (const void *)addr;

		memcpy(s->path, un->sun_path, sizeof(s->path));
		file = open(s->path, O_CREAT | O_EXCL | O_WRONLY, 0700);
		if (file < 0)
			return sock_refuse(errno == EEXIST ? EADDRINUSE
							   : errno);
		__real_close(file);
		return 0;
	}
	memcpy(&s->addr, addr, sizeof(s->addr));
	if (s->addr.sin_port && listener_at(addr))
		return sock_refuse(EADDRINUSE);
	if (!s->addr.sin_port)
		s->addr.sin_port = htons(ports++);
	return 0;
}

int __wrap_listen(int fd, int backlog)
{
	struct sim_sock *s = sim_sock_of(fd);

	(void)backlog;
	if (!s)
		return -1;
	if (s->state == SIM_SOCK_LISTENS)
		return 0;
	s->state = SIM_SOCK_LISTENS;
	LIST_INSERT_HEAD(&listeners, s, listening);
	return 0;
}

/* Make the other end of a connection and put it into the listener's backlog. */
static void enqueue(struct sim_sock *listener, struct sim_sock *s)
{
	struct sim_sock *other = sim_sock_new(s->domain, s->type);

	other->addr = listener->addr;
	other->peer_addr = s->addr;
	other->peer = s->peer;
	sim_flow_join(s, other);
	TAILQ_INSERT_TAIL(&listener->backlog, other, queued);
	sim_file_changed(&listener->file);
}

static void on_dial(void *arg)
{
	struct sim_sock *s = arg, *listener;

	if (!sim_net_open(&s->addr, &s->peer_addr)) {
		sim_event_arm(&s->dial, sim_now + SIM_S, on_dial, s);
		return;
	}
	listener = listener_at((struct sockaddr *)&s->peer_addr);
	if (listener)
		enqueue(listener, s);
	else
		s->err = ECONNREFUSED;
	sim_file_changed(&s->file);
}

static int dial_unix(struct sim_sock *s, const struct sockaddr *addr)
{
	const struct sockaddr_un *un = (const void *)addr;
	struct sim_sock *listener = listener_at(addr);

	if (access(un->sun_path, F_OK) < 0)
		return -1;
	if (!listener)
		return sock_refuse(ECONNREFUSED);
	know(s, sim_proc_self());
	enqueue(listener, s);
	return 0;
}

int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct sim_sock *s = sim_sock_of(fd);

	(void)len;
	sim_point();
	if (!s)
		return -1;
	if (s->domain == AF_UNIX)
		return dial_unix(s, addr);
	memcpy(&s->peer_addr, addr, sizeof(s->peer_addr));
	s->state = SIM_SOCK_DIALS;
	sim_event_arm(&s->dial, sim_now + 2 * sim_net_latency(), on_dial, s);
	return sock_refuse(EINPROGRESS);
}

int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct sim_sock *s = sim_sock_of(fd), *got;

	sim_point();
	if (!s)
		return -1;
	got = TAILQ_FIRST(&s->backlog);
	if (!got)
		return sock_refuse(EAGAIN);
	if (sim_short())
		return -1;
	TAILQ_REMOVE(&s->backlog, got, queued);
	got->file.nonblock = flags & SOCK_NONBLOCK;
	if (addr && *len >= sizeof(got->peer_addr))
		memcpy(addr, &got->peer_addr, sizeof(got->peer_addr));
	return sim_fd_new(&got->file);
}

static int name_of(int fd, struct sockaddr *addr, bool peer)
{
	const struct sim_sock *s = sim_sock_of(fd);

	if (!s)
		return -1;
	memcpy(addr, peer ? &s->peer_addr : &s->addr, sizeof(s->addr));
	return 0;
}

int __wrap_getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	(void)len;
	return name_of(fd, addr, false);
}

int __wrap_getpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
	(void)len;
	return name_of(fd, addr, true);
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	struct sim_sock *s = sim_sock_of(fd);

	if (!s)
		return -1;
	if (level == SOL_SOCKET && name == SO_ERROR) {
		memcpy(value, &s->err, sizeof(s->err));
		s->err = 0;
	} else if (level == SOL_SOCKET && name == SO_PEERCRED) {
		memcpy(value, &s->peer, sizeof(s->peer));
	} else if (level == SOL_SOCKET && name == PEERPIDFD) {
		return sock_refuse(ENOPROTOOPT);
	} else {
		memset(value, 0, *len);
	}
	return 0;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value,
		      socklen_t len)
{
	struct sim_sock *s = sim_sock_of(fd);
	const struct timeval *tv = value;
	uint64_t ns = 0;

	if (!s)
		return -1;
	if (len == sizeof(*tv))
		ns = (uint64_t)tv->tv_sec * SIM_S +
		     (uint64_t)tv->tv_usec * 1000;
	if (level == SOL_SOCKET && name == SO_RCVTIMEO)
		s->read_limit = ns;
	else if (level == SOL_SOCKET && name == SO_SNDTIMEO)
		s->write_limit = ns;
	else if (level == IPPROTO_TCP && name == TCP_USER_TIMEOUT)
		s->user_timeout = *(const unsigned *)value * SIM_MS;
	return 0;
}
