/* SPDX-License-Identifier: Apache-2.0 */
/* Messages with descriptors over a stream socket (SCM_RIGHTS, unix(7)): header,
 * then descriptors in batches with one byte each, then the bytes. */
#include "handover/channel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define MAGIC 0x4f48424d50494d21ull
#define FDS_AT_ONCE 128 /* the kernel's limit is 253, SCM_MAX_FD */
#define BYTES_MAX (1ull << 32)

struct header {
	uint64_t magic;
	uint32_t version; /* MPIB_HANDOVER_VERSION */
	uint32_t type;
	uint64_t len;
	uint64_t fds;
};

int mpib_channel_patience(int sock, unsigned ms)
{
	struct timeval tv = { .tv_sec = ms / 1000,
			      .tv_usec = ms % 1000 * 1000L };

	if (setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) < 0 ||
	    setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) < 0)
		return -errno;
	return 0;
}

static int send_all(int sock, const void *bytes, size_t len)
{
	const char *at = bytes;

	while (len > 0) {
		ssize_t n = send(sock, at, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

static int recv_all(int sock, void *bytes, size_t len)
{
	char *at = bytes;

	while (len > 0) {
		ssize_t n = recv(sock, at, len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		/* ECONNRESET: the other process ended with unread data. */
		if (n == 0 || (n < 0 && errno == ECONNRESET))
			return -EPIPE;
		if (n < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(FDS_AT_ONCE * sizeof(int))];
};

/* Descriptors travel as ancillary data of one byte. */
static int send_fds(int sock, const int *fd, size_t n)
{
	union control control = { 0 };
	char byte = 0;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE(n * sizeof(int)),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(c), fd, n * sizeof(int));
	return sendmsg(sock, &msg, MSG_NOSIGNAL) == 1 ? 0 : -errno;
}

static int recv_fds(int sock, int *fd, size_t n)
{
	union control control;
	char byte;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t got = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = got == 1 ? CMSG_FIRSTHDR(&msg) : NULL;

	if (got < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	if (got == 0)
		return -EPIPE;
	if (!c || c->cmsg_type != SCM_RIGHTS ||
	    c->cmsg_len != CMSG_LEN(n * sizeof(int)) ||
	    msg.msg_flags & MSG_CTRUNC)
		return -EMFILE;
	memcpy(fd, CMSG_DATA(c), n * sizeof(int));
	return 0;
}

static size_t channel_batch(size_t left)
{
	return left < FDS_AT_ONCE ? left : FDS_AT_ONCE;
}

static int channel_put(int sock, enum mpib_channel_type type, const void *bytes,
		       size_t len, const int *fd, size_t fds)
{
	struct header h = {
		.magic = MAGIC,
		.version = MPIB_HANDOVER_VERSION,
		.type = (uint32_t)type,
		.len = len,
		.fds = fds,
	};
	int rc = send_all(sock, &h, sizeof(h));

	for (size_t at = 0; rc == 0 && at < fds; at += channel_batch(fds - at))
		rc = send_fds(sock, fd + at, channel_batch(fds - at));
	return rc == 0 ? send_all(sock, bytes, len) : rc;
}

int mpib_channel_send(int sock, enum mpib_channel_type type,
		      const struct mpib_serial *p)
{
	return p ? channel_put(sock, type, p->bytes, p->len, p->fd, p->fds)
		 : channel_put(sock, type, NULL, 0, NULL, 0);
}

int mpib_channel_fail(int sock, const char *why)
{
	return channel_put(sock, MPIB_CHANNEL_FAILED, why, strlen(why), NULL,
			   0);
}

static int channel_take(int sock, const struct header *h, struct mpib_serial *p)
{
	uint8_t *bytes;
	size_t got = 0;
	int rc = 0, *fd;

	/* TAKEN, say: who has no memory to hear it would kill the process that
	 * serves. */
	if (h->len == 0 && h->fds == 0)
		return 0;
	bytes = malloc(h->len + 1);
	fd = calloc(h->fds + 1, sizeof(*fd));
	if (!bytes || !fd) {
		free(bytes);
		free(fd);
		return -ENOMEM;
	}
	while (rc == 0 && got < h->fds) {
		rc = recv_fds(sock, fd + got, channel_batch(h->fds - got));
		got += rc == 0 ? channel_batch(h->fds - got) : 0;
	}
	if (rc == 0)
		rc = recv_all(sock, bytes, h->len);
	mpib_serial_unpack(p, bytes, h->len, fd, got);
	if (rc < 0)
		mpib_serial_fini(p);
	return rc;
}

int mpib_channel_recv(int sock, enum mpib_channel_type want,
		      struct mpib_serial *p)
{
	struct header h;
	int rc = recv_all(sock, &h, sizeof(h));

	*p = (struct mpib_serial){ 0 };
	if (rc < 0)
		return rc;
	if (h.magic != MAGIC || h.len > BYTES_MAX || h.fds > 1u << 24)
		return -EPROTO;
	if (h.type != MPIB_CHANNEL_FAILED && h.version != MPIB_HANDOVER_VERSION)
		return -ENOTSUP;
	rc = channel_take(sock, &h, p);
	if (rc == 0 && h.type == MPIB_CHANNEL_FAILED) {
		snprintf(p->why, sizeof(p->why), "%.*s", (int)h.len,
			 (const char *)p->bytes);
		return -EREMOTEIO;
	}
	if (rc == 0 && h.type != (uint32_t)want) {
		mpib_serial_fini(p);
		return -EPROTO;
	}
	return rc;
}

int mpib_channel_last(int sock, enum mpib_channel_type want,
		      struct mpib_serial *p)
{
	int rc;

	/* The kernel serializes this with the other end's send: either the
	 * message is in the queue now, or that send fails. */
	if (shutdown(sock, SHUT_RD) < 0)
		return -errno;
	rc = mpib_channel_recv(sock, want, p);
	return rc == -EPIPE ? -ETIMEDOUT : rc;
}
