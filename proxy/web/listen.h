/* SPDX-License-Identifier: Apache-2.0 */
/* The listening socket of HTTP, and which requests are refused. Private to
 * web/. */
#ifndef MPIB_WEB_LISTEN_H
#define MPIB_WEB_LISTEN_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

/* Listen on a loopback address. Returns the socket, and writes its address with
 * the port in use into own and, as text, into address; or -errno with why as in
 * config.h. */
int mpib_http_listen(const char *listen, struct sockaddr_in *own, char *address,
		     size_t len, char *why);

/*
 * Whether a Host header names a loopback address or localhost. Other names are
 * refused: a web page could resolve a name of its own to 127.0.0.1 and so read
 * the answers in a user's browser (DNS rebinding).
 */
bool mpib_http_host(const char *host);

#endif
