/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write a snapshot as metrics, in Prometheus' text format 0.0.4.
 * mpib-metrics(7) lists the names and labels. Names and labels may be added,
 * but existing ones never change. Only the MPIB_METRICS_CLIENTS clients that
 * have been attached longest have their own series, so that a scrape stays
 * below 2,000 series. Sums include all clients.
 */
#ifndef MPIB_METRICS_EXPOSITION_H
#define MPIB_METRICS_EXPOSITION_H

#include "view/view.h"

#define MPIB_METRICS_CLIENTS 64
#define MPIB_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Return the text, which ends with "# EOF". The caller frees it. Return NULL if
 * memory is short. v->snap must be set. Control thread. */
char *mpib_metrics_text(const struct mpib_view *v);

#endif
