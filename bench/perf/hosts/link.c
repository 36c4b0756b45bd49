/* SPDX-License-Identifier: Apache-2.0 */
/* Messages over a TCP link, see link.h. */
#include "perf/hosts/link.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "perf/options.h"

/* How long a message may take from its first byte to its last. */
#define HALF_MESSAGE_S 30

struct head {
	uint32_t type, len;
};

void perf_link_ready(int fd)
{
	struct timeval most = { .tv_sec = HALF_MESSAGE_S };
	int on = 1, idle = 10, count = 3;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
	/* A socket pair refuses the other options and does not need them. */
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

static int send_all(int fd, const void *data, size_t len)
{
	const char *at = data;

	while (len > 0) {
		ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -errno;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int recv_all(int fd, void *data, size_t len, double until)
{
	char *at = data;

	while (len > 0) {
		if (now_s() > until)
			return -ETIMEDOUT;
		ssize_t n = recv(fd, at, len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		if (n == 0)
			return -EPIPE;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

int perf_link_send(int fd, enum perf_msg_type type, const void *data,
		   size_t len)
{
	struct head head = { .type = type, .len = (uint32_t)len };
	int rc;

	if (len > PERF_LINK_MAX)
		return -EMSGSIZE;
	rc = send_all(fd, &head, sizeof(head));
	return rc < 0 || len == 0 ? rc : send_all(fd, data, len);
}

void perf_link_clean(char *text, size_t size)
{
	size_t i;

	for (i = 0; i + 1 < size && text[i]; i++)
		text[i] = (char)(text[i] >= ' ' && text[i] <= '~' ? text[i]
								  : '?');
	text[i] = '\0';
}

int perf_link_recv(int fd, struct perf_msg *m)
{
	double until = now_s() + HALF_MESSAGE_S;
	struct head head;
	int rc = recv_all(fd, &head, sizeof(head), until);

	m->data = NULL;
	if (rc < 0)
		return rc;
	if (head.type < PERF_HELLO || head.type > PERF_BYE ||
	    head.len > PERF_LINK_MAX)
		return -EPROTO;
	m->type = head.type;
	m->len = head.len;
	m->data = malloc((size_t)head.len + 1);
	if (!m->data)
		return -ENOMEM;
	rc = recv_all(fd, m->data, head.len, until);
	if (rc < 0) {
		free(m->data);
		m->data = NULL;
		return rc;
	}
	m->data[head.len] = '\0';
	if (m->type == PERF_FAIL)
		perf_link_clean(m->data, (size_t)m->len + 1);
	return 0;
}

int perf_link_expect(int fd, struct perf_msg *m, enum perf_msg_type type,
		     size_t len, const char *host)
{
	int rc = perf_link_recv(fd, m);

	if (rc < 0) {
		perf_bad("%s: no answer: %s (is it mpib-perf of this version?)",
			 host, strerror(-rc));
		return rc;
	}
	if (m->type == type && m->len >= len)
		return 0;
	if (m->type == PERF_FAIL) {
		perf_bad("%s: %s", host, m->data);
		rc = -EREMOTEIO;
	} else {
		perf_bad(
			"%s: another answer than expected (is it mpib-perf of this version?)",
			host);
		rc = -EPROTO;
	}
	free(m->data);
	m->data = NULL;
	return rc;
}
