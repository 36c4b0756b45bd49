/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP on a loopback address: /metrics, /stats.json and a live page. Nothing
 * can be changed through it. Control thread only; a reader costs it no more
 * than one of the stats socket does.
 */
#ifndef MPIB_WEB_HTTP_H
#define MPIB_WEB_HTTP_H

#include "metrics/gather.h"

struct mpib_http;

/*
 * Serve on "127.0.0.1:9495"; port 0 is one that is free. -errno, with why as
 * in config.h; -EOPNOTSUPP when the proxy was built without it.
 */
int mpib_http_open(struct mpib_gather *g, const char *listen,
		   struct mpib_http **http, char *why);
/* "127.0.0.1:9495", as it listens. */
const char *mpib_http_address(const struct mpib_http *http);
/* Hang up on everybody. Before mpib_gather_stop(). */
void mpib_http_close(struct mpib_http *http);

#endif
