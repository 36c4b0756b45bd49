/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keep the file descriptors of memory that the client may have to register
 * again at another proxy. A separate thread holds these descriptors in its own
 * descriptor table. So the descriptors do not count towards the rank's limit
 * (ulimit -n), and forked children do not inherit them. The client sends the
 * descriptors to the thread over a socket, and gets copies of them back over
 * the same socket. The client starts the thread when it keeps its first
 * descriptor. It sends requests to the thread only under the client's lock, and
 * receives all answers before it releases the lock.
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ipc/client.h"
#include "ipc/message.h"

#define CLOSE_UNSHARE                                                          \
	2u /* CLOSE_RANGE_UNSHARE of linux/close_range.h, Linux 5.9 */

/* ThreadSanitizer assumes that all threads share one descriptor table. If two
 * tables contain the same descriptor number, ThreadSanitizer reports a race. So
 * under ThreadSanitizer the thread uses the descriptor table of the process. In
 * this case the kept descriptors stay open if a client detaches while memory is
 * registered. */
#if defined(__SANITIZE_THREAD__)
static const bool own_table = false;
#else
static const bool own_table = true;
#endif

enum {
	KEEP_READY = 1,
	KEEP_TAKE,
	KEEP_LEND,
	KEEP_CLOSE
};

static int keep_recv(int sock, struct mpib_message *m)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	int rc;

	while ((rc = mpib_message_recv(sock, m)) == -EAGAIN || rc == -EINTR)
		(void)poll(&p, 1, -1);
	return rc;
}

static int keep_send(int sock, uint32_t type, uint32_t kept, int status, int fd)
{
	const struct mpib_ctl_header h = {
		.type = type, .id = kept, .status = status, .len = sizeof(h)
	};

	return mpib_message_send(sock, &h, &fd, fd >= 0);
}

/* Give this thread its own descriptor table, and close all descriptors in it
 * except the socket. */
static int keep_unshare(int sock)
{
	if (!own_table)
		return 0;
	if (syscall(SYS_close_range, (unsigned)sock + 1, ~0u, CLOSE_UNSHARE) <
	    0)
		return -errno;
	if (sock > 0)
		syscall(SYS_close_range, 0u, (unsigned)sock - 1, 0);
	return 0;
}

/* Answer a request of the client. The id of a kept descriptor is the
 * descriptor's number in this thread's table plus 1; the id 0 means no
 * descriptor. Returns 0, or -errno if no answer was sent. */
static int keep_answer(int sock, struct mpib_message *m, int rc)
{
	uint32_t type = m->h.type, kept = m->h.id;
	int lent = -1;

	if (type == KEEP_TAKE && rc == 1 && m->fds == 1) {
		kept = (uint32_t)m->fd[0] + 1;
		m->fds = 0;
	} else if (type == KEEP_TAKE) {
		rc = -EMFILE;
	} else if (type == KEEP_LEND) {
		lent = (int)kept - 1;
	} else {
		close((int)kept - 1);
	}
	mpib_message_close_fds(m);
	rc = keep_send(sock, type, kept, rc < 0 ? rc : 0, lent);
	/* The kernel may refuse to pass the descriptor, for example with
	 * -ETOOMANYREFS. In this case answer without the descriptor. */
	return rc < 0 ? keep_send(sock, type, kept, rc, -1) : 0;
}

/* Answer requests until the client shuts the socket down. The kernel closes the
 * kept descriptors when the thread ends. */
static void *keep_run(void *arg)
{
	int sock = (int)(intptr_t)arg;
	struct mpib_message m;
	int rc = keep_unshare(sock);

	if (keep_send(sock, KEEP_READY, 0, rc, -1) < 0)
		rc = -EPIPE;
	while (rc == 0) {
		int got = keep_recv(sock, &m);

		if (got != 1 && got != -EMFILE)
			break;
		rc = keep_answer(sock, &m, got);
	}
	/* The client waits for answers without a time limit. The shutdown ends
	 * this wait. */
	shutdown(sock, SHUT_RDWR);
	if (!own_table)
		close(sock);
	return NULL;
}

static int keep_start(struct mpib_client *c)
{
	struct mpib_helper *helper = &c->helper;
	struct mpib_message m;
	int sock[2], rc;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) < 0)
		return -errno;
	rc = mpib_thread_start(&helper->keeping, keep_run,
			       (void *)(intptr_t)sock[1]);
	if (rc < 0) {
		close(sock[0]);
		close(sock[1]);
		return rc;
	}
	rc = keep_recv(sock[0], &m) == 1 ? m.h.status : -EPIPE;
	if (own_table)
		close(sock[1]);
	helper->keeper = sock[0];
	if (rc < 0)
		mpib_keep_stop(c);
	return rc;
}

void mpib_keep_stop(struct mpib_client *c)
{
	struct mpib_helper *helper = &c->helper;

	if (helper->keeper < 0)
		return;
	if (c->forks == mpib_forks) {
		/* close() is not enough, because a forked child may have a copy
		 * of the socket. */
		shutdown(helper->keeper, SHUT_RDWR);
		mpib_thread_join(helper->keeping);
	}
	close(helper->keeper);
	helper->keeper = -1;
}

/* Send a request to the thread and wait for the answer. Returns 1 and stores
 * the answer in `*m`, or returns -errno. */
static int keep_ask(const struct mpib_client *c, uint32_t type, uint32_t kept,
		    int fd, struct mpib_message *m)
{
	int rc = keep_send(c->helper.keeper, type, kept, 0, fd);

	if (rc == 0)
		rc = keep_recv(c->helper.keeper, m);
	return rc == 0 ? -EPIPE : rc;
}

uint32_t mpib_keep(struct mpib_client *c, int fd)
{
	struct mpib_message m;
	int rc = 1;

	if (!mpib_client_again(c))
		return 0;
	if (c->helper.keeper < 0)
		rc = keep_start(c);
	if (rc >= 0)
		rc = keep_ask(c, KEEP_TAKE, 0, fd, &m);
	if (rc == 1 && m.h.status == 0)
		return m.h.id;
	mpib_helper_gives_up(c, rc < 0 ? rc : m.h.status);
	return 0;
}

int mpib_keep_lend(const struct mpib_client *c, uint32_t kept)
{
	struct mpib_message m;
	int rc = kept ? keep_ask(c, KEEP_LEND, kept, -1, &m) : -EBADF;

	if (rc < 0)
		return rc;
	if (m.h.status < 0)
		return m.h.status;
	return m.fds == 1 ? m.fd[0] : -EBADF;
}

void mpib_keep_close(const struct mpib_client *c, uint32_t kept)
{
	struct mpib_message m;

	if (kept && c->helper.keeper >= 0)
		(void)keep_ask(c, KEEP_CLOSE, kept, -1, &m);
}
