/* SPDX-License-Identifier: Apache-2.0 */
/* Simulate the system calls that send and receive messages on sockets. A
 * message can carry descriptors. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim_sock.h"
#include "sim_task.h"
#include "sim_wrap.h"

static ssize_t put_error(struct sim_sock *s)
{
	int err = s->err;

	if (err)
		s->err = 0;
	else if (s->state != SIM_SOCK_OPEN)
		err = s->state == SIM_SOCK_DIALS ? EAGAIN : ENOTCONN;
	else if (s->out->ended || (!s->out->reader && s->domain == AF_UNIX))
		err = EPIPE;
	return -err;
}

static void hold_fds(struct sim_chunk *c, const struct msghdr *msg)
{
	const struct cmsghdr *m =
		msg->msg_controllen ? CMSG_FIRSTHDR(msg) : NULL;
	int fd;

	if (!m || m->cmsg_type != SCM_RIGHTS)
		return;
	c->helds = (unsigned)((m->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	c->held = calloc(c->helds, sizeof(int));
	if (!c->held)
		abort();
	for (unsigned i = 0; i < c->helds; i++) {
		memcpy(&fd, CMSG_DATA(m) + i * sizeof(int), sizeof(fd));
		c->held[i] = sim_fd_hold(fd);
	}
}

ssize_t sim_sock_put(struct sim_sock *s, struct msghdr *msg)
{
	ssize_t rc = put_error(s);
	struct sim_chunk *c;
	size_t len = 0, at = 0;

	if (rc)
		return rc;
	if (!sim_flow_room(s->out))
		return -EAGAIN;
	for (size_t i = 0; i < msg->msg_iovlen; i++)
		len += msg->msg_iov[i].iov_len;
	c = sim_chunk_new(NULL, 0);
	free(c->bytes);
	c->bytes = malloc(len + 1);
	if (!c->bytes)
		abort();
	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		memcpy(c->bytes + at, msg->msg_iov[i].iov_base,
		       msg->msg_iov[i].iov_len);
		at += msg->msg_iov[i].iov_len;
	}
	c->len = len;
	hold_fds(c, msg);
	sim_flow_send(s->out, c);
	return (ssize_t)len;
}

static void give_fds(struct sim_chunk *c, struct msghdr *msg)
{
	struct cmsghdr *m = msg->msg_controllen ? CMSG_FIRSTHDR(msg) : NULL;
	size_t room;

	if (!c->helds) {
		msg->msg_controllen = 0;
		return;
	}
	room = m ? (msg->msg_controllen - CMSG_LEN(0)) / sizeof(int) : 0;
	if (room < c->helds)
		msg->msg_flags |= MSG_CTRUNC;
	if (!m)
		return;
	m->cmsg_level = SOL_SOCKET;
	m->cmsg_type = SCM_RIGHTS;
	m->cmsg_len =
		CMSG_LEN(sizeof(int) * (room < c->helds ? room : c->helds));
	for (unsigned i = 0; i < c->helds; i++) {
		int fd;

		if (i >= room) {
			sim_fd_drop(c->held[i]);
			continue;
		}
		fd = sim_fd_give(c->held[i]);
		memcpy(CMSG_DATA(m) + i * sizeof(int), &fd, sizeof(fd));
	}
	msg->msg_controllen = CMSG_SPACE(m->cmsg_len - CMSG_LEN(0));
	c->helds = 0;
}

static size_t copy_out(struct sim_chunk *c, struct msghdr *msg, size_t skip)
{
	size_t done = 0;

	for (size_t i = 0; i < msg->msg_iovlen && c->at < c->len; i++) {
		const struct iovec *v = &msg->msg_iov[i];
		size_t n = v->iov_len;

		if (skip >= n) {
			skip -= n;
			continue;
		}
		n -= skip;
		if (n > c->len - c->at)
			n = c->len - c->at;
		memcpy((char *)v->iov_base + skip, c->bytes + c->at, n);
		c->at += n;
		done += n;
		skip = 0;
	}
	return done;
}

static void chunk_read(struct sim_flow *f, struct sim_chunk *c, size_t n)
{
	f->bytes -= n;
	if (c->at < c->len)
		return;
	TAILQ_REMOVE(&f->arrived, c, link);
	sim_chunk_free(c);
}

static ssize_t take_packet(struct sim_sock *s, struct msghdr *msg)
{
	struct sim_chunk *c = TAILQ_FIRST(&s->in->arrived);
	size_t n = copy_out(c, msg, 0), left = c->len - c->at;

	if (left)
		msg->msg_flags |= MSG_TRUNC;
	c->at = c->len;
	give_fds(c, msg);
	chunk_read(s->in, c, n + left);
	return (ssize_t)n;
}

static ssize_t take_stream(struct sim_sock *s, struct msghdr *msg)
{
	struct sim_chunk *c = TAILQ_FIRST(&s->in->arrived);
	size_t n, all = 0;

	give_fds(c, msg);
	do {
		n = copy_out(c, msg, all);
		all += n;
		chunk_read(s->in, c, n);
		c = TAILQ_FIRST(&s->in->arrived);
	} while (n && c && !c->helds && !c->at);
	return (ssize_t)all;
}

ssize_t sim_sock_take(struct sim_sock *s, struct msghdr *msg)
{
	ssize_t n;
	int err = s->err;

	msg->msg_flags = 0;
	if (err) {
		s->err = 0;
		return -err;
	}
	if (s->state != SIM_SOCK_OPEN)
		return s->state == SIM_SOCK_DIALS ? -EAGAIN : -ENOTCONN;
	if (!TAILQ_FIRST(&s->in->arrived)) {
		/* Leave msg_controllen as it is: after the wait, this function
		 * is called again with the same message. */
		if (!s->in->eof)
			return -EAGAIN;
		msg->msg_controllen = 0;
		return 0;
	}
	n = s->type == SOCK_SEQPACKET ? take_packet(s, msg)
				      : take_stream(s, msg);
	if (s->in->writer)
		sim_file_changed(&s->in->writer->file);
	return n;
}

static ssize_t try_put(struct sim_file *f, void *msg)
{
	return sim_sock_put((struct sim_sock *)f, msg);
}

static ssize_t try_take(struct sim_file *f, void *msg)
{
	return sim_sock_take((struct sim_sock *)f, msg);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct sim_sock *s = sim_sock_of(fd);
	struct msghdr copy = *msg;

	sim_point();
	return s ? sim_file_block(&s->file, flags & MSG_DONTWAIT,
				  s->write_limit, try_put, &copy)
		 : -1;
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct sim_sock *s = sim_sock_of(fd);

	sim_point();
	return s ? sim_file_block(&s->file, flags & MSG_DONTWAIT, s->read_limit,
				  try_take, msg)
		 : -1;
}

ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	return __wrap_sendmsg(fd, &msg, flags);
}

ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags)
{
	struct iovec iov = { buf, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	return __wrap_recvmsg(fd, &msg, flags);
}

int __wrap_shutdown(int fd, int how)
{
	struct sim_sock *s = sim_sock_of(fd);
	struct sim_chunk *c;

	if (!s)
		return -1;
	if (s->state != SIM_SOCK_OPEN) {
		errno = ENOTCONN;
		return -1;
	}
	if (how != SHUT_WR) {
		s->in->eof = true;
		/* After this call, the peer of a Unix socket gets EPIPE if it
		 * sends. */
		if (s->domain == AF_UNIX)
			s->in->ended = true;
	}
	if (how != SHUT_RD && !s->out->ended) {
		c = sim_chunk_new(NULL, 0);
		c->last = true;
		sim_flow_send(s->out, c);
	}
	sim_file_changed(&s->file);
	return 0;
}
