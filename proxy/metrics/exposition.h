/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snapshot as metrics, in the text format of Prometheus, 0.0.4. Names and labels
 * are those of mpib-metrics(7); they may be added to, but never change. The
 * MPIB_METRICS_CLIENTS clients that have been attached longest have series of their
 * own, so that a scrape stays below 2,000 series; sums include all clients.
 */
#ifndef MPIB_METRICS_EXPOSITION_H
#define MPIB_METRICS_EXPOSITION_H

#include "view/view.h"

#define MPIB_METRICS_CLIENTS 64
#define MPIB_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* The text, which ends with "# EOF". The caller frees it; NULL when memory is
 * short. v->snap must be set. Control thread. */
char *mpib_metrics_text(const struct mpib_view *v);

#endif
