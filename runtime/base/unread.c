/* SPDX-License-Identifier: Apache-2.0 */
#include "base/unread.h"

#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/closer.h"

/* Of a stream's message there is at least a byte; another's may be empty, and has its
 * sender's credentials, which the end has not. */
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
