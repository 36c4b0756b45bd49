/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snapshot as metrics, in the text format of OpenMetrics 1.0 or of Prometheus
 * 0.0.4. Names, units and labels are those of mpib-metrics(7); they may be
 * added to, but never change. The MPIB_METRICS_CLIENTS clients that have been
 * attached longest have series of their own, so that a scrape stays below 2,000
 * series; sums include all clients.
 */
#ifndef MPIB_METRICS_OPENMETRICS_H
#define MPIB_METRICS_OPENMETRICS_H

#include <stdio.h>

#include "engine/measure/times.h"
#include "view/view.h"

#define MPIB_METRICS_CLIENTS 64

#define MPIB_OPENMETRICS_TYPE                                                  \
	"application/openmetrics-text; version=1.0.0; charset=utf-8"
#define MPIB_PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum mpib_metrics_format {
	MPIB_METRICS_OPENMETRICS,
	MPIB_METRICS_PROMETHEUS,
};

/* The text, which ends with "# EOF". The caller frees it; NULL when memory is
 * short. v->snap must be set. Control thread. */
char *mpib_metrics_text(const struct mpib_view *v,
			enum mpib_metrics_format format);

/* Writing one scrape. Private to metrics/. */

enum mpib_family_type {
	MPIB_FAMILY_COUNTER,
	MPIB_FAMILY_GAUGE,
	MPIB_FAMILY_INFO, /* always 1; its labels are the information */
	MPIB_FAMILY_HISTOGRAM, /* of seconds */
};

/* A family: a field of a noun's JSON, or what fill writes. */
struct mpib_exposition;
struct mpib_family {
	const char *name; /* without _total and _info; NULL: the list ends */
	enum mpib_family_type type;
	const char *unit; /* or NULL */
	const char *help;
	const char *path; /* in a row, such as "share.weight"; of an info, its
			     labels: "device provider" */
	const char *by; /* the label that names the members of an object */
	unsigned times; /* the sample is the field times this; 0: once */
	void (*fill)(const struct mpib_exposition *m);
};

/* The families of one noun. */
struct mpib_noun {
	mpib_view_fn
		*rows; /* an array, or one row; NULL: families are filled */
	const struct mpib_family *families;
	/* Labels of each sample: their names, and the fields that they are. */
	struct {
		const char *name, *key;
	} label[2];
};

/* Ends with one without families. */
extern const struct mpib_noun mpib_nouns[];

/* The state of writing one scrape. */
struct mpib_exposition {
	FILE *out;
	const struct mpib_view *view;
	const struct mpib_family *family;
};

struct mpib_label {
	const char *name, *value;
};

/* Write one sample. */
void mpib_sample(const struct mpib_exposition *m,
		 const struct mpib_label *label, unsigned labels,
		 uint64_t value);
void mpib_sample_real(const struct mpib_exposition *m,
		      const struct mpib_label *label, unsigned labels,
		      double value);

/* Write all samples of one histogram: buckets up to 2^first, 2^(first + step), ...
 * 2^last ns, few enough that a scrape stays small. */
struct mpib_bounds {
	unsigned first, last, step;
};
void mpib_sample_hist(const struct mpib_exposition *m,
		      const struct mpib_label *label, unsigned labels,
		      const struct mpib_bounds *bounds,
		      const struct mpib_hist_counts *h);

/* fills.c: those that are no field of a noun. */
extern const struct mpib_family mpib_filled_families[];

#endif
