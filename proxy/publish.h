/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots for the readers of statistics, the history of the last hour, and HTTP
 * with a page for browsers where an address is set. Control thread only.
 */
#ifndef MPIB_PROXY_PUBLISH_H
#define MPIB_PROXY_PUBLISH_H

#include "metrics/gather.h"
#include "view/history.h"
#include "web/http.h"

struct mpib_metrics {
	struct mpib_gather gather;
	/* The stats socket's, whose readers keep a snapshot until they are
	 * through with it: that keeps no scrape waiting. */
	struct mpib_gather kept;
	bool open;
	struct mpib_http *http; /* NULL: no address is set */
	struct mpib_history *history; /* NULL: no memory for it */
	struct mpib_gather_wait sample;
	struct mpib_timer next_sample;
};

/* Serve HTTP where view->cfg says so; add to history, which outlives m. -errno, with why as
 * in config.h; then m is not open. */
int mpib_metrics_open(struct mpib_metrics *m, struct mpib_loop *loop,
		      struct mpib_engine *engine, const struct mpib_view *view,
		      struct mpib_history *history, char *why);
/* Hang up on all readers. Call before mpib_engine_close(), during which a
 * snapshot may still come, so *m must stay valid until then. Does nothing when
 * m is not open. */
void mpib_metrics_stop(struct mpib_metrics *m);

#endif
