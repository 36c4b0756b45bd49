/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics for machines and a page for people: RUNDIR/metrics.sock, and HTTP
 * where an address is set. Control thread only.
 */
#ifndef MPIB_PROXY_PUBLISH_H
#define MPIB_PROXY_PUBLISH_H

#include "metrics/gather.h"
#include "metrics/scrape.h"
#include "web/http.h"

struct mpib_metrics {
	struct mpib_gather gather;
	struct mpib_scrapes *scrapes; /* NULL: nothing is open */
	struct mpib_http *http; /* NULL: no address is set */
};

/* Serve the listening socket fd, which stays the caller's, and HTTP where view's
 * configuration says so. -errno, with why as in config.h; then m is not open. */
int mpib_metrics_open(struct mpib_metrics *m, struct mpib_loop *loop,
		      struct mpib_engine *engine, int fd,
		      const struct mpib_view *view, char *why);
/* Hang up on everybody. Before mpib_engine_close(), which may still bring a
 * snapshot: m stays in place until then. Nothing when it is not open. */
void mpib_metrics_stop(struct mpib_metrics *m);

#endif
