/* SPDX-License-Identifier: Apache-2.0 */
/* The listening socket of HTTP, and the check of the Host header. */
#include "web/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/config.h"

static bool is_loopback(const char *addr, struct in_addr *in)
{
	return inet_pton(AF_INET, addr, in) == 1 &&
	       (ntohl(in->s_addr) >> 24) == IN_LOOPBACKNET;
}

/* Parse "127.0.0.1:9495". False if the address is no loopback address. */
static bool listen_parse(const char *listen_on, struct sockaddr_in *sin)
{
	const char *colon = strrchr(listen_on, ':');
	char addr[INET_ADDRSTRLEN], *end;
	unsigned long port;

	if (!colon || colon == listen_on ||
	    (size_t)(colon - listen_on) >= sizeof(addr))
		return false;
	memcpy(addr, listen_on, (size_t)(colon - listen_on));
	addr[colon - listen_on] = '\0';
	port = strtoul(colon + 1, &end, 10);
	if (colon[1] < '0' || colon[1] > '9' || *end || port > 65535)
		return false;
	sin->sin_family = AF_INET;
	sin->sin_port = htons((uint16_t)port);
	return is_loopback(addr, &sin->sin_addr);
}

int mpib_http_listen(const char *listen_on, char *address, size_t len,
		     char *why)
{
	struct sockaddr_in sin = { 0 };
	socklen_t size = sizeof(sin);
	char text[INET_ADDRSTRLEN];
	int fd, rc, on = 1;

	if (!listen_parse(listen_on, &sin)) {
		snprintf(why, MPIB_WHY_MAX,
			 "metrics.listen = \"%.64s\": not a port of a loopback "
			 "address (give 127.0.0.1:9495, and a web server in "
			 "front of it where others shall read)",
			 listen_on);
		return -EINVAL;
	}
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		goto err_why;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&sin, size) < 0 || listen(fd, 64) < 0 ||
	    getsockname(fd, (struct sockaddr *)&sin, &size) < 0)
		goto err_close;
	inet_ntop(AF_INET, &sin.sin_addr, text, sizeof(text));
	snprintf(address, len, "%s:%u", text, ntohs(sin.sin_port));
	return fd;

err_close:
	rc = errno;
	close(fd);
	errno = rc;
err_why:
	rc = -errno;
	snprintf(why, MPIB_WHY_MAX,
		 "metrics.listen = \"%.64s\": %s (give another port)",
		 listen_on, strerror(-rc));
	return rc;
}

bool mpib_http_host(const char *host)
{
	char name[64];
	struct in_addr in;
	size_t len;

	if (!host)
		return false;
	len = strcspn(host, ":");
	if (len == 0 || len >= sizeof(name))
		return false;
	memcpy(name, host, len);
	name[len] = '\0';
	return !strcasecmp(name, "localhost") || is_loopback(name, &in);
}
