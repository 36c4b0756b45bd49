/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics for machines and a page for people: RUNDIR/metrics.sock, and HTTP
 * where an address is set. Control thread only.
 */
#ifndef MPIB_METRICS_METRICS_H
#define MPIB_METRICS_METRICS_H

#include "metrics/gather.h"
#include "metrics/scrape.h"

struct mpib_metrics {
	struct mpib_gather gather;
	struct mpib_scrapes *scrapes;
};

/* Serve the listening socket fd, which stays the caller's. view describes the
 * proxy. -errno, with why as in config.h; then it is as after _free(). */
int mpib_metrics_open(struct mpib_metrics *m, struct mpib_loop *loop,
		      struct mpib_engine *engine, int fd,
		      const struct mpib_view *view, char *why);
/* Hang up on everybody. Before mpib_engine_close(), which may still bring a
 * snapshot: m stays in place until then. Nothing when it is not open. */
void mpib_metrics_stop(struct mpib_metrics *m);

#endif
