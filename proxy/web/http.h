/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server for HTTP or HTTPS. It has /metrics, /stats.json, /history.json,
 * /cluster.json and a live page, all read-only. Control thread only. An HTTP
 * reader costs that thread no more than a reader of the stats socket.
 */
#ifndef MPIB_WEB_HTTP_H
#define MPIB_WEB_HTTP_H

#include <netinet/in.h>
#include <stddef.h>

#include "metrics/gather.h"

struct mpib_http;

/*
 * Serve HTTP as configured by [metrics] in cfg. This call reads the files of
 * the certificate, its key and the token. Port 0 means any free port. Returns
 * 0, or -errno with `why` as in config.h.
 */
int mpib_http_open(struct mpib_gather *g, const struct mpib_config *cfg,
		   struct mpib_http **http, char *why);
/* Return "http" or "https". */
const char *mpib_http_scheme(const struct mpib_http *http);
/* Return the address with the actual port, such as "127.0.0.1:9495". */
const char *mpib_http_address(const struct mpib_http *http);
/* Close all connections. */
void mpib_http_close(struct mpib_http *http);

/* The listening socket of HTTP. Private to web/. */

/* Listen on an IPv4 address. Writes the address with the actual port into *own
 * and, as text, into the buffer `address`. Returns the socket, or -errno with
 * `why` as in config.h. */
int mpib_http_listen(const char *listen, struct sockaddr_in *own, char *address,
		     size_t len, char *why);

#endif
