/* SPDX-License-Identifier: Apache-2.0 */
/* The listening socket of HTTP. */
#include "web/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/config.h"

int mpib_http_listen(const char *listen_on, struct sockaddr_in *own,
		     char *address, size_t len, char *why)
{
	socklen_t size = sizeof(*own);
	char text[INET_ADDRSTRLEN];
	int fd, rc, on = 1;

	rc = mpib_config_listen(listen_on, own, why);
	if (rc < 0)
		return rc;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		goto err_why;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)own, size) < 0 || listen(fd, 64) < 0 ||
	    getsockname(fd, (struct sockaddr *)own, &size) < 0)
		goto err_close;
	inet_ntop(AF_INET, &own->sin_addr, text, sizeof(text));
	snprintf(address, len, "%s:%u", text, ntohs(own->sin_port));
	return fd;

err_close:
	rc = errno;
	close(fd);
	errno = rc;
err_why:
	rc = -errno;
	return mpib_why_fail(
		why, rc, "metrics.listen = \"%.64s\": %s (give another port)",
		listen_on, strerror(-rc));
}
