/* SPDX-License-Identifier: Apache-2.0 */
/* Where HTTP listens, and who may ask. Between the files of web/. */
#ifndef MPIB_WEB_LISTEN_H
#define MPIB_WEB_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

/* A listening socket on a loopback address, or -errno with why as in config.h.
 * address becomes the one it has, its port too. */
int mpib_http_listen(const char *listen, char *address, size_t len, char *why);

/*
 * Whether a Host header names this machine by address or as localhost. A name
 * that somebody made to lead here would let any web page read the answers.
 */
bool mpib_http_host(const char *host);

#endif
