/* SPDX-License-Identifier: Apache-2.0 */
/* Messages over a TCP link, see link.h. */
#include "perf/hosts/link.h"

#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "perf/world.h"

/* The maximum time between the first and the last byte of a message. */
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
	/* Ignore errors: a socket pair refuses the options below, but does not
	 * need them. */
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

static int recv_all(int fd, void *data, size_t len, double until)
{
	char *at = data;

	while (len > 0) {
		if (perf_now() > until)
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
	double until = perf_now() + HALF_MESSAGE_S;
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
			"%s: unexpected answer (is it mpib-perf of this version?)",
			host);
		rc = -EPROTO;
	}
	free(m->data);
	m->data = NULL;
	return rc;
}

#define RETRY_US 50000
#define BACKLOG 1024

/* Split "NAME:PORT" or "[V6]:PORT". A name with several colons and no brackets
 * is an IPv6 address without a port. */
static int split(const char *host, int port, char name[256], char text[16])
{
	const char *colon = strrchr(host, ':');
	size_t len = strlen(host);

	if (host[0] == '[') {
		const char *end = strchr(host, ']');

		if (!end || (end[1] && end[1] != ':'))
			return -EINVAL;
		colon = end[1] ? end + 1 : NULL;
		len = (size_t)(end - ++host);
	} else if (colon && strchr(host, ':') == colon) {
		len = (size_t)(colon - host);
	} else {
		colon = NULL;
	}
	if (len == 0 || len > 255 || (colon && strlen(colon + 1) > 15))
		return -EINVAL;
	snprintf(name, 256, "%.*s", (int)len, host);
	if (colon)
		snprintf(text, 16, "%s", colon + 1);
	else
		snprintf(text, 16, "%d", port);
	return 0;
}

/* Try all addresses once. Returns the fd or -errno. After -ECONNREFUSED the
 * caller should try again: a process may listen there later. */
static int try_all(const struct addrinfo *all)
{
	int rc = -EHOSTUNREACH;

	for (const struct addrinfo *a = all; a; a = a->ai_next) {
		int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);

		if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0)
			return fd;
		if (rc != -ECONNREFUSED)
			rc = -errno;
		if (fd >= 0)
			close(fd);
	}
	return rc;
}

int perf_link_dial(const char *host, int port, double seconds)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	double begun = perf_now();
	char name[256], text[16];
	struct addrinfo *all;
	int rc, fd;

	if (split(host, port, name, text) < 0)
		return perf_bad(
			       "host \"%s\": not a host name (give HOST or HOST:PORT)",
			       host),
		       -1;
	rc = getaddrinfo(name, text, &hints, &all);
	if (rc)
		return perf_bad(
			       "host %s: %s (give a name or address that this host knows)",
			       host, gai_strerror(rc)),
		       -1;
	for (;;) {
		fd = try_all(all);
		if (fd != -ECONNREFUSED || perf_now() - begun > seconds)
			break;
		usleep(RETRY_US);
	}
	freeaddrinfo(all);
	if (fd < 0)
		return perf_bad(
			       "host %s: port %s: %s (start mpib-perf --server there, and let a firewall pass it)",
			       host, text, strerror(-fd)),
		       -1;
	perf_link_ready(fd);
	return fd;
}

static int bound_port(int fd)
{
	struct sockaddr_storage at;
	socklen_t len = sizeof(at);
	char text[16];

	if (getsockname(fd, (struct sockaddr *)&at, &len) < 0 ||
	    getnameinfo((struct sockaddr *)&at, len, NULL, 0, text,
			sizeof(text), NI_NUMERICSERV))
		return 0;
	return atoi(text);
}

/* Listen at an address. Returns the fd or -errno. */
static int listen_at(const void *addr, socklen_t len)
{
	const struct sockaddr *at = addr;
	int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1, off = 0, rc;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	/* Let a socket that listens on all IPv6 addresses listen on all IPv4
	 * addresses, too. */
	if (at->sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, at, len) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

static int listen_at_all(int port)
{
	const struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
					 .sin6_port = htons((uint16_t)port) };
	const struct sockaddr_in v4 = { .sin_family = AF_INET,
					.sin_port = htons((uint16_t)port) };
	int fd = listen_at(&v6, sizeof(v6));

	/* Try IPv4, as this host may have no IPv6. */
	return fd < 0 && fd != -EADDRINUSE ? listen_at(&v4, sizeof(v4)) : fd;
}

int perf_link_listen(const char *addr, int *port)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
					.ai_flags = AI_PASSIVE };
	struct addrinfo *all;
	char text[16];
	int rc, fd;

	snprintf(text, sizeof(text), "%d", *port);
	if (addr) {
		rc = getaddrinfo(addr, text, &hints, &all);
		if (rc)
			return perf_bad(
				       "--listen %s: %s (give an address of this host)",
				       addr, gai_strerror(rc)),
			       -1;
		fd = listen_at(all->ai_addr, all->ai_addrlen);
		freeaddrinfo(all);
	} else {
		fd = listen_at_all(*port);
	}
	if (fd < 0)
		return perf_bad(
			       "port %s: cannot listen: %s (if another mpib-perf uses it, give another --port)",
			       text, strerror(-fd)),
		       -1;
	*port = bound_port(fd);
	return fd;
}

void perf_setup_make(struct perf_setup *s, const struct perf_options *opt,
		     int node, uint32_t device)
{
	*s = (struct perf_setup){
		.node = (uint32_t)node,
		.nnodes = (uint32_t)opt->nnodes,
		.ranks_per_node = (uint32_t)opt->ranks_per_node,
		.pattern = opt->pattern,
		.block_order = opt->block_order,
		.channels = (uint32_t)opt->channels,
		.inflight = (uint32_t)opt->inflight,
		.sealed = opt->sealed,
		.check = opt->check,
		.group = (uint32_t)opt->group,
		.early = opt->early_completion,
		.churn = opt->churn,
		.device = device,
		.min = opt->min,
		.max = opt->max,
		.factor = opt->factor,
		.iters = opt->iters,
		.warmup = opt->warmup,
		.chunk = opt->chunk,
		.seed = opt->seed,
		.random_sizes = opt->random_sizes,
		.steady_count = opt->steady_count,
		.steady_seconds = opt->steady_seconds,
		.timeout = opt->timeout,
	};
}

static bool within(uint64_t n, uint64_t lo, uint64_t hi)
{
	return n >= lo && n <= hi;
}

static bool sane(const struct perf_setup *s)
{
	return within(s->nnodes, 1, PERF_NODES_MAX) && s->node < s->nnodes &&
	       within(s->ranks_per_node, 1, PERF_RANKS_MAX) &&
	       s->pattern < PERF_PATTERNS &&
	       within(s->channels, 1, PERF_CHANNELS_MAX) &&
	       within(s->inflight, 1, PERF_INFLIGHT_MAX) &&
	       (s->device == PERF_SETUP_OWN || s->device < PERF_DEVICES_MAX) &&
	       within(s->group, 1, PERF_GROUP_MAX) && s->max <= PERF_SIZE_MAX &&
	       s->chunk <= PERF_SIZE_MAX && within(s->factor, 2, 1 << 20) &&
	       within(s->iters, 1, UINT32_MAX) && s->warmup <= UINT32_MAX &&
	       s->random_sizes <= UINT32_MAX && s->steady_count <= UINT32_MAX &&
	       isfinite(s->steady_seconds) && s->steady_seconds >= 0 &&
	       s->steady_seconds <= 1e6 && s->timeout > 0 && s->timeout <= 1e6;
}

int perf_setup_take(const struct perf_setup *s, struct perf_options *opt)
{
	if (!sane(s))
		return perf_bad(
			"setup: a number is out of range (is the other end mpib-perf of this version?)");
	opt->nnodes = (int)s->nnodes;
	for (int i = 0; i < opt->nnodes; i++)
		opt->nodes[i] = NULL;
	opt->ranks_per_node = (int)s->ranks_per_node;
	opt->pattern = (enum perf_pattern)s->pattern;
	opt->block_order = s->block_order != 0;
	opt->channels = (int)s->channels;
	opt->inflight = (int)s->inflight;
	opt->sealed = s->sealed != 0;
	opt->check = s->check != 0;
	opt->group = (int)s->group;
	opt->early_completion = s->early != 0;
	opt->churn = s->churn != 0;
	if (s->device != PERF_SETUP_OWN)
		opt->dev = (int)s->device;
	opt->min = s->min;
	opt->max = s->max;
	opt->max_given = true;
	opt->factor = s->factor;
	opt->iters = s->iters;
	opt->warmup = s->warmup;
	opt->chunk = s->chunk;
	opt->seed = s->seed;
	opt->random_sizes = s->random_sizes;
	opt->steady_count = s->steady_count;
	opt->steady_seconds = s->steady_seconds;
	opt->timeout = s->timeout;
	opt->role = PERF_NODE;
	return perf_options_settle(opt);
}
