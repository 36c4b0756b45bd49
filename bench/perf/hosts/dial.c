/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting to and listening for mpib-perf of other hosts. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "perf/hosts/link.h"
#include "perf/options.h"
#include "perf/world.h"

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

/* Try all addresses once. The fd, or -errno: -ECONNREFUSED if a retry may
 * succeed. */
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
			       "host \"%s\": that is none (give HOST or HOST:PORT)",
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

/* The fd, or -errno. */
static int listen_at(const void *addr, socklen_t len)
{
	const struct sockaddr *at = addr;
	int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1, off = 0, rc;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	/* A socket that listens on all IPv6 addresses listens on all IPv4
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

	/* This host may have no IPv6. */
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
			       "port %s: it cannot be listened at: %s (another mpib-perf? give another --port)",
			       text, strerror(-fd)),
		       -1;
	*port = bound_port(fd);
	return fd;
}
