/* SPDX-License-Identifier: Apache-2.0 */
#include "base/users.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/closer.h"
#include "base/log.h"

#define SHORT_OF                                                               \
	(100 * MPIB_MSEC) /* retry after a lack of descriptors or memory */

#define AHEAD (MPIB_SEC / 8)
#define FULL MPIB_SEC

static void acceptor_on_time(void *arg)
{
	struct mpib_acceptor *a = arg;

	mpib_loop_mod(a->loop, &a->watch, EPOLLIN);
}

/* Accept nothing for ns. The callers queue in the kernel. */
static void acceptor_pause(struct mpib_acceptor *a, uint64_t ns)
{
	mpib_loop_mod(a->loop, &a->watch, 0);
	mpib_timer_arm(a->loop, &a->pause, ns, acceptor_on_time, a);
}

/* Count an accepted caller, and pause if the rate is too high. */
static void acceptor_count(struct mpib_acceptor *a)
{
	uint64_t now = mpib_loop_now(a->loop), wait;

	if (a->a_second == 0)
		return;
	mpib_rate_pay(&a->paid, now, MPIB_SEC / a->a_second);
	wait = mpib_rate_wait(a->paid, now, AHEAD);
	if (wait > 0)
		acceptor_pause(a, wait);
}

/* Pause if a new caller's sockets could use up the remaining descriptors. */
static bool acceptor_full(struct mpib_acceptor *a)
{
	uid_t user = 0;

	if (!a->of_users || !mpib_closers_full(&user))
		return false;
	mpib_warn("%s waits: too many sockets of uid %u are still being closed "
		  "(end its processes, and check its file systems)",
		  a->who, (unsigned)user);
	acceptor_pause(a, FULL);
	return true;
}

/* Return false if the loop must not accept another caller now. */
static bool acceptor_take(struct mpib_acceptor *a)
{
	int fd;

	if (acceptor_full(a))
		return false;
	fd = accept4(a->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0) {
		acceptor_count(a);
		a->fn(a->arg, fd);
		/* fn() may have closed the acceptor. */
		return a->watch.added && !a->pause.armed;
	}
	if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR)
		return false;
	if (errno == EMFILE && a->full && a->full(a->arg)) {
		acceptor_count(a);
		return false;
	}
	mpib_warn("%s waits: accept: %m (raise LimitNOFILE, or ulimit -n)",
		  a->who);
	acceptor_pause(a, SHORT_OF);
	return false;
}

static void acceptor_on_call(void *arg, uint32_t events)
{
	struct mpib_acceptor *a = arg;
	unsigned left = a->at_once;

	(void)events;
	while (acceptor_take(a) && left > 1)
		left--;
}

int mpib_acceptor_open(struct mpib_acceptor *a)
{
	return mpib_loop_add(a->loop, &a->watch, a->fd, EPOLLIN,
			     acceptor_on_call, a);
}

void mpib_acceptor_close(struct mpib_acceptor *a)
{
	mpib_timer_disarm(a->loop, &a->pause);
	mpib_loop_del(a->loop, &a->watch);
}

int mpib_acceptor_renew(struct mpib_acceptor *a, int fd)
{
	int rc;

	mpib_acceptor_close(a);
	rc = dup3(fd, a->fd, O_CLOEXEC) < 0 ? -errno : mpib_acceptor_open(a);
	close(fd);
	return rc;
}

uid_t mpib_accepted_uid(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0
		       ? cred.uid
		       : (uid_t)-1;
}

/* A call is long if it uses more than FREE_NS of CPU time, which includes
 * interrupts. All long calls together may use MOST_NS. */
#define FREE_NS 200000u
#define MOST_NS 20000000u
/* A long call counts as much as WEIGHT short ones. */
#define WEIGHT 4u
#define MANY (5 * WEIGHT)
/* Long calls are the user's fault only if their mean is this many times the mean
 * of calls on a socket without waiters. */
#define TIMES 50u

uint64_t mpib_waking_begin(void)
{
	return mpib_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Return the mean CPU time of a send or receive on a socket without waiters; 0
 * if it is unknown. */
static uint64_t plain_call_ns(void)
{
	const uint64_t n = 16;
	uint64_t began, took, i = 0;
	char byte = 0;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return 0;
	began = mpib_waking_begin();
	while (i < n && send(pair[0], &byte, 1, MSG_DONTWAIT) == 1 &&
	       recv(pair[1], &byte, 1, MSG_DONTWAIT) == 1)
		i++;
	took = mpib_waking_begin() - began;
	close(pair[0]);
	close(pair[1]);
	return i == n ? took / (2 * n) : 0;
}

bool mpib_waking_end(struct mpib_waking *w, uint64_t began_ns)
{
	uint64_t took = mpib_waking_begin() - began_ns;

	if (took > FREE_NS) {
		w->slow += WEIGHT;
		w->calls++;
		w->took_ns += took;
		if (w->slow < MANY || w->took_ns < MOST_NS)
			return true;
		if (w->took_ns / w->calls > TIMES * plain_call_ns())
			return false;
		*w = (struct mpib_waking){ 0 };
	} else if (w->slow > 0 && --w->slow == 0) {
		*w = (struct mpib_waking){ 0 };
	}
	return true;
}

/* On a stream socket a message has at least one byte. On other sockets a
 * message may be empty, but unlike the end of the stream it carries its
 * sender's credentials. */
bool mpib_unread_none(int sock)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))];
	struct msghdr msg = { .msg_control = control,
			      .msg_controllen = sizeof(control) };
	socklen_t len = sizeof(int);
	int domain, type, bytes, on = 1;

	if (getsockopt(sock, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 ||
	    domain != AF_UNIX ||
	    getsockopt(sock, SOL_SOCKET, SO_TYPE, &type, &len) < 0 ||
	    ioctl(sock, FIONREAD, &bytes) < 0 || bytes > 0)
		return false;
	if (type == SOCK_STREAM)
		return true;
	setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	return recvmsg(sock, &msg, MSG_PEEK | MSG_DONTWAIT) == 0 &&
	       msg.msg_controllen == 0 && !(msg.msg_flags & MSG_CTRUNC);
}

ssize_t mpib_recv_of(uid_t user, int sock, void *to, size_t len, int flags)
{
	_Alignas(struct cmsghdr) char
		control[CMSG_SPACE(sizeof(int) * MPIB_RIGHTS_MAX)];
	struct iovec iov = { .iov_base = to, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	ssize_t n =
		recvmsg(sock, &msg, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	const struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&msg);

	for (size_t at = CMSG_LEN(0); c && at < c->cmsg_len;
	     at += sizeof(int)) {
		int fd;

		memcpy(&fd, (const char *)c + at, sizeof(fd));
		mpib_close_received(user, fd);
	}
	return n;
}
