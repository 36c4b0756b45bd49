/* SPDX-License-Identifier: Apache-2.0 */
/* The listening socket of HTTP. Private to web/. */
#ifndef MPIB_WEB_LISTEN_H
#define MPIB_WEB_LISTEN_H

#include <netinet/in.h>
#include <stddef.h>

/* Listen on an IPv4 address. Returns the socket, and writes its address with
 * the port in use into own and, as text, into address; or -errno with why as in
 * config.h. */
int mpib_http_listen(const char *listen, struct sockaddr_in *own, char *address,
		     size_t len, char *why);

#endif
