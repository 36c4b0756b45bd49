/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snapshot as metrics, in the text format of OpenMetrics 1.0 or of Prometheus
 * (0.0.4). Names, units and labels are those of mpib-metrics(7): only ever
 * added to. Clients have series of their own up to MPIB_METRICS_CLIENTS, the
 * longest attached first, so that a scrape stays below 2,000 series; sums hold
 * all of them.
 */
#ifndef MPIB_METRICS_OPENMETRICS_H
#define MPIB_METRICS_OPENMETRICS_H

#include "view/view.h"

#define MPIB_METRICS_CLIENTS 64

#define MPIB_OPENMETRICS_TYPE                                                  \
	"application/openmetrics-text; version=1.0.0; charset=utf-8"
#define MPIB_PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum mpib_metrics_format {
	MPIB_METRICS_OPENMETRICS,
	MPIB_METRICS_PROMETHEUS,
};

/* Ends with "# EOF". To be freed; NULL when memory is short. v->snap is set. Control thread. */
char *mpib_metrics_text(const struct mpib_view *v,
			enum mpib_metrics_format format);

#endif
