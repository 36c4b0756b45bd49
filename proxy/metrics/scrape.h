/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RUNDIR/metrics.sock: whoever connects gets one scrape in the OpenMetrics
 * format and is hung up on. A reader that does not take it within 5 s is
 * dropped. Control thread only.
 */
#ifndef MPIB_METRICS_SCRAPE_H
#define MPIB_METRICS_SCRAPE_H

#include "metrics/gather.h"

struct mpib_scrapes;

/* Serve the listening socket fd, which stays the caller's, as g. -errno. */
int mpib_scrapes_open(struct mpib_gather *g, int fd,
		      struct mpib_scrapes **sock);
/* Hang up on everybody. Before mpib_gather_stop(). */
void mpib_scrapes_close(struct mpib_scrapes *sock);

#endif
