/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages with descriptors (SCM_RIGHTS), see unix(7). */
#include "ipc/message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FDS_BYTES (sizeof(int) * MPIB_CTL_FDS_MAX)

int mpib_message_send(int sock, const struct mpib_ctl_header *h, const int *fd,
		      unsigned fds)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(FDS_BYTES)] = { 0 };
	struct iovec iov = { .iov_len = h->len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fds > MPIB_CTL_FDS_MAX)
		return -EINVAL;
	/* Copy the pointer with memcpy(), because iov_base is not a pointer to
	 * `const`. sendmsg() only reads the message. */
	memcpy(&iov.iov_base, &h, sizeof(h));
	if (fds) {
		struct cmsghdr *c;

		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * fds);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * fds);
		memcpy(CMSG_DATA(c), fd, sizeof(int) * fds);
	}
	if (sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return -errno;
	return 0;
}

static void take_fds(struct mpib_message *m, struct msghdr *msg)
{
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		/* The control buffer has room for exactly MPIB_RIGHTS_MAX
		 * descriptors. So this loop skips no descriptor, and none
		 * leaks. */
		for (size_t i = 0; i < n && m->fds < MPIB_RIGHTS_MAX; i++)
			memcpy(&m->fd[m->fds++], CMSG_DATA(c) + i * sizeof(int),
			       sizeof(int));
	}
}

int mpib_message_take(int sock, struct mpib_message *m)
{
	/* This array must have room for all descriptors that a message can
	 * have. Otherwise recvmsg() would close the descriptors that do not
	 * fit, which may take long. */
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(m->fd))];
	struct iovec iov = { .iov_base = m->bytes,
			     .iov_len = sizeof(m->bytes) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int rc = 1;

	m->fds = 0;
	if (n < 0)
		return -errno;
	take_fds(m, &msg);
	if (n == 0 && m->fds == 0)
		return 0;
	m->len = (size_t)n;
	if (msg.msg_flags & MSG_CTRUNC)
		rc = -EMFILE;
	if (msg.msg_flags & MSG_TRUNC || m->len < sizeof(m->h) ||
	    m->h.len != m->len || m->fds > MPIB_CTL_FDS_MAX)
		rc = -EPROTO;
	return rc;
}

int mpib_message_recv(int sock, struct mpib_message *m)
{
	int rc = mpib_message_take(sock, m);

	if (rc < 0)
		mpib_message_close_fds(m);
	return rc;
}

void mpib_message_close_fds(struct mpib_message *m)
{
	while (m->fds > 0)
		close(m->fd[--m->fds]);
}
