/* SPDX-License-Identifier: Apache-2.0 */
#include "unkind.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "vt.h"

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* since Linux 6.15 */
#endif
#define FDS 4096
#define PIECES 128

struct unkind unkind = { .rng = 1 };

static struct {
	int set; /* epoll descriptor plus 1; 0: not watched */
	struct epoll_event ev;
} watched[FDS];

static int narrow(int fd)
{
	/* About the segment size of Ethernet. If segments are larger than the
	 * free space, TCP acknowledges each segment only after 40 ms. */
	int mss = 1000;
	/* Maximum retransmission timeout in ms. Each time the small buffer is
	 * full, TCP doubles this timeout. Without the limit, it grows to two
	 * minutes. */
	int longest = 1000;

	if (fd >= 0 && unkind.room) {
		setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &mss, sizeof(mss));
		setsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &longest,
			   sizeof(longest));
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &unkind.room,
			   sizeof(unkind.room));
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &unkind.room,
			   sizeof(unkind.room));
	}
	return fd;
}

WRAPS(int, socket, int domain, int type, int protocol)
{
	int fd = __real_socket(domain, type, protocol);

	return domain == AF_INET ? narrow(fd) : fd;
}

WRAPS(int, accept4, int fd, struct sockaddr *sa, socklen_t *len, int flags)
{
	return narrow(__real_accept4(fd, sa, len, flags));
}

WRAPS(int, epoll_ctl, int set, int op, int fd, struct epoll_event *ev)
{
	int rc = __real_epoll_ctl(set, op, fd, ev);

	if (!rc && op == EPOLL_CTL_ADD && fd < FDS && ev->events & EPOLLET) {
		watched[fd].set = set + 1;
		watched[fd].ev = *ev;
	}
	return rc;
}

/* Cause the edge-triggered event that a kernel would cause, because there is
 * more to read or more space to write. */
static void edge(int fd)
{
	if (fd < FDS && watched[fd].set)
		__real_epoll_ctl(watched[fd].set - 1, EPOLL_CTL_MOD, fd,
				 &watched[fd].ev);
}

static size_t total(const struct msghdr *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->msg_iovlen; i++)
		n += m->msg_iov[i].iov_len;
	return n;
}

static struct msghdr first(const struct msghdr *m, struct iovec *iov, size_t n)
{
	struct msghdr out = *m;
	size_t i = 0;

	for (; n && i < m->msg_iovlen && i < PIECES; i++) {
		iov[i] = m->msg_iov[i];
		if (iov[i].iov_len > n)
			iov[i].iov_len = n;
		n -= iov[i].iov_len;
	}
	out.msg_iov = iov;
	out.msg_iovlen = i;
	return out;
}

/* Return how many of `n` bytes to move: all, a random number, or a random
 * number below 40, so that the cut is within or near a header. */
static size_t fewer(size_t n)
{
	uint64_t r;

	if (n < 2 || vt_rand(&unkind.rng) % 100 >= unkind.cut)
		return n;
	r = vt_rand(&unkind.rng);
	if (r & 1)
		return 1 + (r >> 8) % (n - 1);
	n = 1 + (r >> 8) % (n < 40 ? n - 1 : 39);
	return n;
}

WRAPS(ssize_t, sendmsg, int fd, const struct msghdr *msg, int flags)
{
	static const int shortage[] = { EAGAIN, ENOMEM, ENOBUFS };
	size_t want = total(msg), n = fewer(want);
	struct iovec iov[PIECES];
	struct msghdr part;
	ssize_t rc;

	if (unkind.no_memory) {
		errno = shortage[unkind.no_memory-- % 3];
		return -1;
	}
	part = first(msg, iov, n);
	rc = __real_sendmsg(fd, &part, flags);
	if (rc >= 0 && n < want)
		edge(fd);
	return rc;
}

WRAPS(ssize_t, recvmsg, int fd, struct msghdr *msg, int flags)
{
	size_t want = total(msg), n = fewer(want);
	struct iovec iov[PIECES];
	struct msghdr part = first(msg, iov, n);
	ssize_t rc = __real_recvmsg(fd, &part, flags);

	if (rc >= 0 && n < want)
		edge(fd);
	return rc;
}

static bool is_connected(int fd)
{
	struct sockaddr_in sa;
	socklen_t len = sizeof(sa);

	return !getpeername(fd, (struct sockaddr *)&sa, &len) &&
	       sa.sin_family == AF_INET;
}

bool unkind_break(void)
{
	static const int ways[] = { SHUT_RDWR, SHUT_WR, SHUT_RD };
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	int found[64], n = 0, fd;
	unsigned way;

	for (fd = 3; fd < FDS && n < 64; fd++)
		if (is_connected(fd))
			found[n++] = fd;
	if (!n)
		return false;
	fd = found[vt_rand(&unkind.rng) % (uint64_t)n];
	way = (unsigned)(vt_rand(&unkind.rng) % 4);
	/* A connect with AF_UNSPEC resets the connection. */
	if (way == 3)
		return !connect(fd, &none, sizeof(none));
	return !shutdown(fd, ways[way]);
}
