/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RUNDIR/metrics.sock: each reader that connects gets one scrape in the
 * OpenMetrics format, then the proxy closes its connection. A reader that does
 * not take the scrape within 5 s is dropped. Control thread only.
 */
#ifndef MPIB_METRICS_SCRAPE_H
#define MPIB_METRICS_SCRAPE_H

#include "metrics/gather.h"

struct mpib_scrapes;

/* Serve readers of the listening socket fd with snapshots from g. The caller
 * keeps fd and closes it. 0 or -errno. */
int mpib_scrapes_open(struct mpib_gather *g, int fd,
		      struct mpib_scrapes **sock);
/* The acceptor of the socket; NULL if sock is NULL. */
struct mpib_acceptor *mpib_scrapes_acceptor(struct mpib_scrapes *sock);
/* Drop all readers. Call before mpib_gather_stop(). */
void mpib_scrapes_close(struct mpib_scrapes *sock);

#endif
